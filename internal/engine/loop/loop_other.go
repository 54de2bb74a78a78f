//go:build !linux

package loop

import (
	"net/netip"
	"time"

	"tidemark.dev/internal/ground/clock"
)

// Loop needs Linux; on this system New returns an error and no Loop exists.
type Loop struct{}

// New returns an error: the loop needs Linux.
func New(o Options, h Handler) (*Loop, error) { return nil, errNeedsLinux }

func (l *Loop) Run() error                                                          { return errNeedsLinux }
func (l *Loop) Stop()                                                               {}
func (l *Loop) Post(f func()) bool                                                  { return false }
func (l *Loop) PostTo(r Ref, f func()) bool                                         { return false }
func (l *Loop) Ref(id ID) Ref                                                       { return Ref{ID: id} }
func (l *Loop) Alive(r Ref) bool                                                    { return false }
func (l *Loop) StopListen(index int)                                                {}
func (l *Loop) Connect(o *ConnectOptions) (ID, error)                               { return 0, errNeedsLinux }
func (l *Loop) Recv(id ID, max int)                                                 {}
func (l *Loop) Skip(id ID, max int)                                                 {}
func (l *Loop) Send(id ID, head, body, tail []byte) bool                            { return false }
func (l *Loop) Close(id ID)                                                         {}
func (l *Loop) CloseWrite(id ID)                                                    {}
func (l *Loop) Abort(id ID)                                                         {}
func (l *Loop) SetTimer(key uint32, due clock.Instant)                              {}
func (l *Loop) CancelTimer(key uint32)                                              {}
func (l *Loop) Now() clock.Instant                                                  { return 0 }
func (l *Loop) Refresh() clock.Instant                                              { return 0 }
func (l *Loop) TurnStart() clock.Instant                                            { return 0 }
func (l *Loop) Backlog() time.Duration                                              { return 0 }
func (l *Loop) Fd(id ID) int                                                        { return -1 }
func (l *Loop) LocalPort(id ID) int                                                 { return 0 }
func (l *Loop) Backend() (name, fallback string)                                    { return "", "" }
func (l *Loop) Stats() Stats                                                        { return Stats{} }
func (l *Loop) SendFile(id ID, head []byte, fd int, off, n int64, tail []byte) bool { return false }

func (l *Loop) Listen(addr netip.AddrPort, o ListenOptions) (int, netip.AddrPort, error) {
	return 0, netip.AddrPort{}, errNeedsLinux
}
