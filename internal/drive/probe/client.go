// Package probe is the prime's own small client: it asks a target for one operation of each kind and checks every
// byte of the answers, carries out the housekeeping commands, and keeps the ledger of POSTs.
//
// Make a [Client] with [New], call [Validate] before a measurement, [Client.Reset] and [Client.Fetch] around an
// iteration, and compare the post log with a [Ledger]. It makes no load and judges no measurement.
package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"tidemark.dev/internal/ground/fault"
	"tidemark.dev/internal/model/web99"
	"tidemark.dev/internal/model/workload"
)

// Client asks one target. It counts what it asks for and receives, so that the server's log can be compared to the
// byte. Its methods may be called from any goroutine.
type Client struct {
	client *http.Client
	base   string
	routes workload.Routes
	most   int64 // bytes of a body

	ops, bytes, unsure atomic.Int64
}

// Ops is the number of requests answered completely, Bytes what was received, headers included.
func (p *Client) Ops() int64 { return p.ops.Load() }

// Bytes is the number of bytes received, headers included.
func (p *Client) Bytes() int64 { return p.bytes.Load() }

// Unsure counts requests that failed on the way: the target's log may hold them or not.
func (p *Client) Unsure() int64 { return p.unsure.Load() }

// Bounds of one request, beside that of silence. They are generous, for a server that stalls is judged by the
// measurement and not by its first answer: timeout leaves room for a long post log. Only the very first answer, of a
// hundred bytes from a server without load, must come soon: nobody wants to wait for a port that is no web server.
const (
	connect = 10 * time.Second
	contact = 10 * time.Second
	timeout = 90 * time.Second

	// mostBody is far above the largest file and the tables of the largest load.
	mostBody = 64 << 20
)

// New makes a client of the target, which it calls by the name host. An answer must begin within silence.
func New(target netip.AddrPort, host string, routes workload.Routes, silence time.Duration) *Client {
	p := &Client{base: "http://" + host, routes: routes, most: mostBody}
	dialer := &net.Dialer{Timeout: connect}
	p.client = &http.Client{
		Timeout:       timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // an answer like others
		Transport: &http.Transport{
			DisableCompression:    true,
			DisableKeepAlives:     true, // one connection a request: nothing to be reset in between
			ResponseHeaderTimeout: silence,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				c, err := dialer.DialContext(ctx, "tcp", target.String())
				if err != nil {
					return nil, err
				}
				return &countedConn{Conn: c, n: &p.bytes, asked: make(chan struct{})}, nil
			},
		},
	}
	return p
}

// countedConn counts what is received, and reads nothing before something was asked: what a target says by itself then
// is its answer, a malformed one, and not a matter for the transport's own log.
type countedConn struct {
	net.Conn
	n     *atomic.Int64
	asked chan struct{} // closed by the first write, or by Close
	once  sync.Once
}

func (c *countedConn) Read(b []byte) (int, error) {
	<-c.asked
	n, err := c.Conn.Read(b)
	c.n.Add(int64(n))
	return n, err
}

func (c *countedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.once.Do(func() { close(c.asked) })
	return n, err
}

func (c *countedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { close(c.asked) })
	return err
}

// answer is a complete response.
type answer struct {
	status int
	header http.Header
	body   []byte
	// head is the number of bytes before the body.
	head int
}

// do sends one request and reads the whole answer. A connection that is refused or breaks is tried again, three times
// in all: how often a server does that is for the measurement to say. One that says nothing has been waited for enough, and
// one that says too much would say it again.
func (p *Client) do(ctx context.Context, method, target, cookie string, body []byte) (*answer, error) {
	return p.within(ctx, p.most, method, target, cookie, body)
}

// within is do for an answer with a body of at most so many bytes.
func (p *Client) within(ctx context.Context, most int64, method, target, cookie string, body []byte) (*answer, error) {
	var last error
	for range 3 {
		a, err := p.once(ctx, most, method, target, cookie, body)
		if err == nil {
			return a, nil
		}
		if last = err; ctx.Err() != nil || method == http.MethodPost || os.IsTimeout(err) || errors.Is(err, errTooLong) {
			break // a POST may have been carried out
		}
	}
	if ctx.Err() != nil {
		last = context.Cause(ctx)
	}
	return nil, fault.Wrap(fault.Target, last, method+" "+target)
}

// errTooLong is of an answer that goes on beyond its bound.
var errTooLong = errors.New("the answer is too long")

func (p *Client) once(ctx context.Context, most int64, method, target, cookie string, body []byte) (*answer, error) {
	rq, err := http.NewRequestWithContext(ctx, method, p.base+target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	rq.Header.Set("User-Agent", "tidemark")
	if cookie != "" {
		rq.Header.Set("Cookie", cookie)
	}
	if method == http.MethodPost {
		rq.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	before := p.bytes.Load()
	rs, err := p.client.Do(rq)
	if err != nil {
		p.unsure.Add(1)
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // which request that was is said above
		}
		return nil, err
	}
	defer rs.Body.Close()
	b, err := io.ReadAll(io.LimitReader(rs.Body, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("%w: more than %d bytes", errTooLong, most)
	}
	if err != nil {
		p.unsure.Add(1)
		return nil, err
	}
	p.ops.Add(1)
	return &answer{status: rs.StatusCode, header: rs.Header, body: b, head: int(p.bytes.Load()-before) - len(b)}, nil
}

// content sends a dynamic request and takes the page's file content out of its wrapper.
func (p *Client) content(ctx context.Context, most int64, target string) ([]byte, *answer, error) {
	a, err := p.within(ctx, most, http.MethodGet, target, "", nil)
	if err != nil {
		return nil, nil, err
	}
	if a.status != http.StatusOK {
		return nil, a, fault.New(fault.Target, "GET %s: status %d", target, a.status)
	}
	content, why := unwrap(a.body)
	if why != "" {
		return nil, a, fault.New(fault.Target, "GET %s: %s", target, why)
	}
	return content, a, nil
}

// unwrap returns what stands between a page's head and tail, or why it is not a page.
func unwrap(body []byte) (content []byte, why string) {
	var w web99.Wrapper
	n := web99.ParseHead(body, &w)
	if n <= 0 {
		return nil, "the answer is not a web99 page"
	}
	tail := web99.Tail()
	if !bytes.HasSuffix(body[n:], tail) {
		return nil, "the page is cut off"
	}
	return body[n : len(body)-len(tail)], ""
}

// Reset carries out the Reset command and returns the tables it made.
func (p *Client) Reset(ctx context.Context, r web99.Reset) (users, ads []byte, err error) {
	query := web99.AppendReset(nil, &r)
	if _, _, err := p.content(ctx, p.most, p.routes.Command+"?"+string(query)); err != nil {
		return nil, nil, err
	}
	if users, _, err = p.content(ctx, p.most, p.routes.Get+"?/"+web99.PersonalityName); err != nil {
		return nil, nil, err
	}
	users = bytes.Clone(users)
	if ads, _, err = p.content(ctx, p.most, p.routes.Get+"?/"+web99.AdsName); err != nil {
		return nil, nil, err
	}
	return users, bytes.Clone(ads), nil
}

// Fetch returns the post log after so many POSTs since the last Reset. One that is more than twice as long as they make
// it is an error: what else is in it nobody sent.
func (p *Client) Fetch(ctx context.Context, posts uint64) ([]byte, error) {
	most := p.most + 2*int64(posts)*web99.RecordSize
	log, _, err := p.content(ctx, most, p.routes.Command+"?"+string(web99.AppendFetch(nil)))
	return log, err
}
