package cgi

import (
	"errors"
	"io"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"tidemark.dev/page"
)

// Gateway is a page that answers every request with a process of its own.
type Gateway struct {
	o        Options
	software string
	null     *os.File
	places   chan struct{}
	closing  chan struct{}

	mu     sync.Mutex // guards closed against running.Add
	closed bool
	run    sync.WaitGroup

	served, failed, expired, refused atomic.Int64
}

// New makes a Gateway. The program must exist and be executable.
func New(o Options) (*Gateway, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	if err := unix.Access(o.Program, unix.X_OK); err != nil {
		return nil, &os.PathError{Op: "cgi: execute", Path: o.Program, Err: err}
	}
	o = o.withDefaults()
	return &Gateway{o: o, places: make(chan struct{}, o.MaxProcesses), closing: make(chan struct{})}, nil
}

// Open implements page.Page.
func (g *Gateway) Open(ctx *page.Context) (err error) {
	g.software = ctx.Software
	g.null, err = os.OpenFile(os.DevNull, os.O_RDWR, 0)
	return err
}

// Close implements page.Page: it refuses new requests, kills what still runs and waits for it.
func (g *Gateway) Close() error {
	g.mu.Lock()
	if !g.closed {
		g.closed = true
		close(g.closing)
	}
	g.mu.Unlock()
	g.run.Wait()
	null := g.null
	g.null = nil
	if null == nil {
		return nil
	}
	return null.Close()
}

// Counts says how requests ended so far. Any goroutine.
func (g *Gateway) Counts() Counts {
	return Counts{g.served.Load(), g.failed.Load(), g.expired.Load(), g.refused.Load()}
}

// Serve implements page.Page. Any goroutine; blocks until the process has ended and is reaped.
func (g *Gateway) Serve(rq *page.Request, rs *page.Response) {
	g.mu.Lock()
	closed := g.closed
	if !closed {
		g.run.Add(1)
	}
	g.mu.Unlock()
	if closed {
		g.refused.Add(1)
		refuse(rs, 503, "shutting down")
		return
	}
	defer g.run.Done()

	env, ok := environment(&g.o, g.software, rq)
	if !ok {
		g.refused.Add(1)
		refuse(rs, 400, "NUL byte in the request")
		return
	}
	timeout := time.NewTimer(g.o.Timeout)
	defer timeout.Stop()
	why := ""
	select {
	case g.places <- struct{}{}:
		defer func() { <-g.places }()
	case <-timeout.C:
		why = "too many CGI programs"
	case <-g.closing:
		why = "shutting down"
	case <-rq.Done:
		why = "cancelled"
	}
	if why != "" {
		g.refused.Add(1)
		refuse(rs, 503, why)
		return
	}
	g.serve(rq, rs, env, timeout.C)
}

func (g *Gateway) serve(rq *page.Request, rs *page.Response, env []string, timeout <-chan time.Time) {
	r, err := g.start(env, rq.Body)
	if err != nil {
		g.failed.Add(1)
		refuse(rs, 502, err.Error())
		return
	}
	defer r.out.Close()
	var expired, cancelled bool
	var beside sync.WaitGroup
	beside.Go(func() {
		select {
		case <-r.ended:
			return
		case <-timeout:
			expired = true
		case <-g.closing:
			cancelled = true
		case <-rq.Done:
			cancelled = true
		}
		r.kill()
	})
	if r.in != nil {
		beside.Go(func() {
			_, _ = r.in.Write(rq.Body) // a program need not read its input
			_ = r.in.Close()
		})
	}
	var h header
	err = r.read(&h, rs, g.o.MaxOutput)
	if err != nil {
		r.kill()
	}
	<-r.ended
	beside.Wait() // before the next use of rq
	switch {
	case expired:
		g.expired.Add(1)
		refuse(rs, 504, "CGI program took too long")
	case cancelled:
		g.refused.Add(1)
		refuse(rs, 503, "cancelled")
	case r.how.err != nil:
		g.failed.Add(1)
		refuse(rs, 502, r.how.err.Error())
	case err != nil:
		g.failed.Add(1)
		refuse(rs, 502, "CGI program: "+err.Error())
	case r.how.status != 0:
		g.failed.Add(1)
		refuse(rs, 502, "CGI program: "+words(r.how.status))
	case h.length >= 0 && h.length != rs.View().Length && string(rq.Method) != "HEAD":
		g.failed.Add(1)
		refuse(rs, 502, "CGI program: body is not as long as Content-Length says")
	default:
		g.served.Add(1)
		h.apply(rs)
	}
}

// words says how a program ended that did not end well.
func words(status syscall.WaitStatus) string {
	switch {
	case status.Exited():
		return "exit status " + strconv.Itoa(status.ExitStatus())
	case status.CoreDump():
		return "signal: " + status.Signal().String() + " (core dumped)"
	}
	return "signal: " + status.Signal().String()
}

// run is one running program as its request sees it.
type run struct {
	group
	in, out *os.File // our ends of its standard input and output; no input: nil
	ended   chan struct{}
	how     result // after ended
}

// start starts the program: by the spawner, or as a child of this process.
func (g *Gateway) start(env []string, body []byte) (_ *run, err error) {
	c := command{program: g.o.Program, dir: g.o.Dir, args: g.o.Args, env: env, files: [3]int{-1, -1, -1}}
	r := &run{ended: make(chan struct{})}
	defer func() {
		if err != nil {
			_, _ = r.in.Close(), r.out.Close() // nil is none
		}
	}()
	if r.out, c.files[1], err = pipe(0); err != nil {
		return nil, unstarted{err}
	}
	defer unix.Close(c.files[1])
	if len(body) > 0 {
		if r.in, c.files[0], err = pipe(1); err != nil {
			return nil, unstarted{err}
		}
		defer unix.Close(c.files[0])
	}
	if g.o.Stderr != nil {
		c.files[2] = int(g.o.Stderr.Fd())
	}
	if g.o.Spawner != nil {
		r.group, err = g.o.Spawner.start(&c, r.end)
	}
	if g.o.Spawner == nil || err == errNoSpawner {
		r.group, err = startDirect(&c, int(g.null.Fd()), r.end)
	}
	return r, err
}

// pipe makes a pipe for us and a program. Our end, 0 to read and 1 to write, is the poller's, and the
// other one blocks.
func pipe(ours int) (_ *os.File, theirs int, err error) {
	var p [2]int
	if err = unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, -1, err
	}
	if err = unix.SetNonblock(p[ours], true); err != nil {
		_, _ = unix.Close(p[0]), unix.Close(p[1])
		return nil, -1, err
	}
	return os.NewFile(uintptr(p[ours]), "pipe"), p[1-ours], nil
}

// end is called when the program has ended and been reaped.
func (r *run) end(how result) {
	r.how = how
	if r.in != nil {
		_ = r.in.SetWriteDeadline(time.Unix(1, 0)) // nobody will read
	}
	// Nobody in the group holds the pipe now, so the reader sees its end, unless a process left the
	// group; then the deadline wakes the reader, which takes what is there.
	_ = r.out.SetReadDeadline(time.Now().Add(escapeeGrace))
	close(r.ended)
}

// escapeeGrace is how long a reader waits for bytes from processes that left the group.
const escapeeGrace = 100 * time.Millisecond

// read reads the header into h and the body into rs.
func (r *run) read(h *header, rs *page.Response, limit int64) error {
	head := make([]byte, 0, 4096)
	for {
		n, err := r.more(head[len(head):cap(head)])
		head = head[:len(head)+n]
		size, bad := parseHeader(head, h)
		if bad != nil {
			return bad
		}
		if size > 0 {
			_, _ = rs.Write(head[size:])
			if err == io.EOF {
				return nil
			}
			break
		}
		if err != nil {
			return errors.New("output ends before the header does")
		}
		if len(head) == cap(head) {
			head = append(head, 0)[:len(head)]
		}
	}
	for err := error(nil); ; {
		rs.Extend(func(b []byte) []byte {
			if cap(b)-len(b) < 4096 {
				b = append(b, make([]byte, max(len(b), 16<<10))...)[:len(b)]
			}
			var n int
			n, err = r.more(b[len(b):cap(b)])
			return b[:len(b)+n]
		})
		if rs.View().Length > limit {
			return errors.New("too much output")
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// more is a Read from the output for which a deadline that ran out after the process ended is no error:
// it takes what the pipe still holds.
func (r *run) more(b []byte) (n int, err error) {
	n, err = r.out.Read(b)
	if n > 0 || err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	raw, err := r.out.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failed error
	if err = raw.Control(func(fd uintptr) { n, failed = syscall.Read(int(fd), b) }); err != nil {
		return 0, err
	}
	if failed == syscall.EAGAIN || n <= 0 && failed == nil {
		return 0, io.EOF
	}
	return max(n, 0), failed
}
