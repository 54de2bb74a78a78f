package ring

import "unsafe"

// The kernel's interface, as in include/uapi/linux/io_uring.h; golang.org/x/sys has
// only the numbers of the system calls.

// SQE is an entry of the submission queue, struct io_uring_sqe.
type SQE struct {
	Op       uint8
	Flags    uint8
	Prio     uint16 // flags of receives, sends and accepts
	FD       int32
	Off      uint64
	Addr     uint64
	Len      uint32
	OpFlags  uint32 // msg_flags, poll32_events, accept_flags, cancel_flags
	UserData uint64
	Group    uint16 // of buffers
	_        uint16
	_        int32
	_        [2]uint64
}

// CQE is an entry of the completion queue, struct io_uring_cqe.
type CQE struct {
	UserData uint64
	Res      int32
	Flags    uint32
}

// Buffer returns the number of the buffer a completion has used.
func (c *CQE) Buffer() (id uint16, ok bool) { return uint16(c.Flags >> 16), c.Flags&cqeBuffer != 0 }

// Operations.
const (
	OpNop     = 0
	OpPoll    = 6  // POLL_ADD
	OpSendMsg = 9  // SENDMSG
	OpAccept  = 13 // ACCEPT
	OpCancel  = 14 // ASYNC_CANCEL
	OpClose   = 19 // CLOSE
	OpSend    = 26 // SEND
	OpRecv    = 27 // RECV
)

// Flags of entries.
const (
	SelectBuffer = 1 << 5 // Flags: the kernel chooses a buffer of the pool
	SkipSuccess  = 1 << 6 // Flags: only a failure completes

	PollFirst = 1 << 0 // Prio of a receive: nothing is there, wait first

	AcceptPollFirst = 1 << 2 // Prio of an accept, the same; from Linux 6.10

	PollMultishot = 1 << 0 // Len of a poll: every wake-up completes

	CancelAll = 1 << 0 // OpFlags of a cancel: not only the first that matches
	CancelFD  = 1 << 1 // OpFlags of a cancel: what names the descriptor matches
	CancelAny = 1 << 2 // OpFlags of a cancel: everything matches

	More     = 1 << 1 // CQE flags: the operation goes on
	NonEmpty = 1 << 2 // CQE flags: the socket holds more bytes

	cqeBuffer = 1 << 0
)

const (
	setupCQSize       = 1 << 3
	setupClamp        = 1 << 4
	setupDisabled     = 1 << 6
	setupSubmitAll    = 1 << 7
	setupTaskrunFlag  = 1 << 9
	setupSingleIssuer = 1 << 12
	setupDeferTaskrun = 1 << 13
	setupNoSQArray    = 1 << 16

	featSingleMmap = 1 << 0
	featExtArg     = 1 << 8

	enterGetEvents  = 1 << 0
	enterExtArg     = 1 << 3
	enterRegistered = 1 << 4

	sqCQOverflow = 1 << 1
	sqTaskrun    = 1 << 2

	registerEnable     = 12
	registerRingFDs    = 20
	unregisterRingFDs  = 21
	registerBufferRing = 22

	offSQRing = 0
	offSQEs   = 0x10000000
)

type sqOffsets struct {
	head, tail, mask, entries, flags, dropped, array, _ uint32
	_                                                   uint64
}

type cqOffsets struct {
	head, tail, mask, entries, overflow, cqes, flags, _ uint32
	_                                                   uint64
}

type params struct {
	sqEntries, cqEntries, flags, sqCPU, sqIdle, features, wqFD uint32
	_                                                          [3]uint32
	sq                                                         sqOffsets
	cq                                                         cqOffsets
}

// eventsArg is struct io_uring_getevents_arg.
type eventsArg struct {
	sigmask     uint64
	sigmaskSize uint32
	_           uint32
	ts          uint64
}

// rsrcUpdate is struct io_uring_rsrc_update.
type rsrcUpdate struct {
	offset, _ uint32
	data      uint64
}

// bufferReg is struct io_uring_buf_reg.
type bufferReg struct {
	addr         uint64
	entries      uint32
	group, flags uint16
	_            [3]uint64
}

// buffer is struct io_uring_buf. The tail of a buffer ring lies in _ of the first.
type buffer struct {
	addr uint64
	size uint32
	id   uint16
	tail uint16
}

// timespec is __kernel_timespec: 64-bit on every architecture.
type timespec struct{ sec, nsec int64 }

// The sizes are the kernel's, or nothing here compiles.
var (
	_ [64]byte  = [unsafe.Sizeof(SQE{})]byte{}
	_ [16]byte  = [unsafe.Sizeof(CQE{})]byte{}
	_ [120]byte = [unsafe.Sizeof(params{})]byte{}
	_ [24]byte  = [unsafe.Sizeof(eventsArg{})]byte{}
	_ [16]byte  = [unsafe.Sizeof(rsrcUpdate{})]byte{}
	_ [40]byte  = [unsafe.Sizeof(bufferReg{})]byte{}
	_ [16]byte  = [unsafe.Sizeof(buffer{})]byte{}
)
