package cgi

import (
	"errors"
	"io"
	"os"
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
	p, err := g.start(env, rq.Body)
	if err != nil {
		g.failed.Add(1)
		refuse(rs, 502, "CGI program did not start")
		return
	}
	defer p.out.Close()
	var expired, cancelled atomic.Bool
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-p.ended:
			return
		case <-timeout:
			expired.Store(true)
		case <-g.closing:
			cancelled.Store(true)
		case <-rq.Done:
			cancelled.Store(true)
		}
		p.kill()
	}()
	var h header
	err = p.read(&h, rs, g.o.MaxOutput)
	if err != nil {
		p.kill()
	}
	<-p.ended
	<-watched // before the next use of rq
	switch {
	case expired.Load():
		g.expired.Add(1)
		refuse(rs, 504, "CGI program took too long")
	case cancelled.Load():
		g.refused.Add(1)
		refuse(rs, 503, "cancelled")
	case err != nil:
		g.failed.Add(1)
		refuse(rs, 502, "CGI program: "+err.Error())
	case p.state == nil:
		g.failed.Add(1)
		refuse(rs, 502, "CGI program: exit status lost")
	case !p.state.Success():
		g.failed.Add(1)
		refuse(rs, 502, "CGI program: "+p.state.String())
	case h.length >= 0 && h.length != rs.View().Length && string(rq.Method) != "HEAD":
		g.failed.Add(1)
		refuse(rs, 502, "CGI program: body is not as long as Content-Length says")
	default:
		g.served.Add(1)
		h.apply(rs)
	}
}

// process is one running program and its group.
type process struct {
	p     *os.Process
	out   *os.File // our end of its standard output
	ended chan struct{}
	state *os.ProcessState // after ended

	mu     sync.Mutex
	reaped bool // then the group's number may belong to somebody else
}

func (g *Gateway) start(env []string, body []byte) (*process, error) {
	stderr := g.null
	if g.o.Stderr != nil {
		stderr = g.o.Stderr
	}
	out, childOut, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer childOut.Close()
	childIn, in := g.null, (*os.File)(nil)
	if len(body) > 0 {
		if childIn, in, err = os.Pipe(); err != nil {
			_ = out.Close()
			return nil, err
		}
		defer childIn.Close()
	}
	p := &process{out: out, ended: make(chan struct{})}
	p.p, err = os.StartProcess(g.o.Program, append([]string{g.o.Program}, g.o.Args...), &os.ProcAttr{
		Dir: g.o.Dir, Env: env, Files: []*os.File{childIn, childOut, stderr},
		// Pdeathsig covers a server that is killed itself and cannot clean up. The kernel sends it when
		// the thread that forked ends, and Go ends a thread only with a goroutine locked to it: loops,
		// which do not start programs.
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		_ = out.Close()
		if in != nil {
			_ = in.Close()
		}
		return nil, err
	}
	if in != nil {
		// The body outlives this goroutine's use of it: the write ends when the process does, at the
		// latest, and ended is closed after that.
		wrote := make(chan struct{})
		go func() {
			defer close(wrote)
			_, _ = in.Write(body) // a program need not read its input
			_ = in.Close()
		}()
		go p.wait(func() {
			_ = in.SetWriteDeadline(time.Unix(1, 0))
			<-wrote
		})
		return p, nil
	}
	go p.wait(func() {})
	return p, nil
}

// kill kills the group. Any goroutine.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		_ = syscall.Kill(-p.p.Pid, syscall.SIGKILL)
	}
}

// wait waits for the process, kills what is left of its group, and reaps it, in this order: as long as
// the process is a zombie the group's number cannot be taken by another.
func (p *process) wait(cleanup func()) {
	for {
		if err := unix.Waitid(unix.P_PID, p.p.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != unix.EINTR {
			break
		}
	}
	p.kill()
	p.mu.Lock()
	p.state, _ = p.p.Wait()
	p.reaped = true
	p.mu.Unlock()
	cleanup()
	// Nobody in the group holds the pipe now, so the reader sees its end, unless a process left the
	// group; then the deadline wakes the reader, which takes what is there.
	_ = p.out.SetReadDeadline(time.Now().Add(escapeeGrace))
	close(p.ended)
}

// escapeeGrace is how long a reader waits for bytes from processes that left the group.
const escapeeGrace = 100 * time.Millisecond

// read reads the header into h and the body into rs.
func (p *process) read(h *header, rs *page.Response, limit int64) error {
	head := make([]byte, 0, 4096)
	for {
		n, err := p.more(head[len(head):cap(head)])
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
			n, err = p.more(b[len(b):cap(b)])
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
func (p *process) more(b []byte) (n int, err error) {
	n, err = p.out.Read(b)
	if n > 0 || err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	raw, err := p.out.SyscallConn()
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
