//go:build linux

package loop

import (
	"testing"

	"golang.org/x/sys/unix"
)

// variant is one way to run a loop.
type variant struct {
	name string
	o    Options
}

func variants() []variant {
	return []variant{
		{"epoll", Options{Backend: "epoll"}},
		{"io_uring", Options{Backend: "io_uring"}},
		{"io_uring in batches", Options{Backend: "io_uring", Batch: true}},
	}
}

// refusal says why this machine has no io_uring, "" if it has.
func refusal(t testing.TB) string {
	t.Helper()
	l := made(t, Options{Batch: true}, &script{})
	_, why := l.Backend()
	l.Stop()
	if err := l.Run(); err != nil {
		t.Fatal(err)
	}
	return why
}

// onEach runs a test on every backend this machine has. What follows from the one
// promise alone, tests do not ask the backend about.
func onEach(t *testing.T, f func(t *testing.T, o Options)) {
	for _, v := range variants() {
		t.Run(v.name, func(t *testing.T) {
			if v.o.Backend == "io_uring" {
				if why := refusal(t); why != "" {
					t.Skip(why)
				}
			}
			f(t, v.o)
		})
	}
}

// common is the part of a loop's backend that all have.
func common(l *Loop) *base {
	switch be := l.be.(type) {
	case *epoll:
		return &be.base
	case *uring:
		return &be.base
	}
	panic("unknown backend")
}

func isEpoll(l *Loop) bool { _, ok := l.be.(*epoll); return ok }

// input waits until id has input, and until a loop that takes note of such things has.
func (r *turning) input(id ID) {
	r.t.Helper()
	c := r.l.table.lookup(id)
	if isEpoll(r.l) {
		r.until(func() bool { return c.flags&readable != 0 })
		return
	}
	for fds := []unix.PollFd{{Fd: c.fd, Events: unix.POLLIN}}; fds[0].Revents == 0; {
		unix.Poll(fds, -1)
	}
}

// again turns once without sleeping: what has been asked for reaches the kernel.
func (r *turning) again() {
	r.t.Helper()
	r.l.Post(func() {})
	r.once()
}
