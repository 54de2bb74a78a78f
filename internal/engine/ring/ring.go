// Package ring is a thin layer on the kernel's io_uring: one submission queue, one
// completion queue and one pool of receive buffers for one thread.
//
// Call [New] anywhere, then [Ring.Enable] on the thread that will use it; from there
// on everything belongs to that thread. [Ring.Next] gives an entry to fill in, Enter
// hands all filled entries to the kernel, Ready, At and Advance read what has come
// back.
//
// It knows no connections, keeps nothing alive that an entry points to, and retries
// nothing. It needs Linux 6.1 and the kernel's permission; New says what is missing.
package ring

import "errors"

// ErrNotHere is what New says where there is no io_uring.
var ErrNotHere = errors.New("io_uring: needs Linux 6.1")
