package ring

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Options shape a ring.
type Options struct {
	// Entries is the size of the submission queue, a power of two; the completion
	// queue is eight times as long.
	Entries int
	// Buffers and BufferSize describe the pool: at most so many (a power of two, at
	// most 32768) of so many bytes. Memory is touched as the pool grows.
	Buffers, BufferSize int
}

// firstBuffers is what the pool offers at first: few buffers stay in the cache.
const firstBuffers = 16

// rawWait is how long a wait is hidden from the scheduler; see Wait.
const rawWait = 20 * time.Millisecond

// Ring is one io_uring. Between New and Enable nothing reaches the kernel.
type Ring struct {
	fd      int
	index   int // among the thread's registered rings; below 0: not registered
	enabled bool

	queues, entries, pool, bufs []byte // mapped

	sqHead, sqTail, sqFlags *uint32
	sqes                    []SQE
	tail                    uint32 // of what has been filled in
	early                   []SQE  // filled in while the queue was full, after tail

	cqHead, cqTail *uint32
	cqes           []CQE

	ring    []buffer
	posted  int // buffers given to the kernel or lent to us
	size    int
	arg     eventsArg
	limit   timespec
	refused syscall.Errno // of the last enter that took nothing
}

// New makes a ring that is asleep until Enable, or says why there is none.
func New(o Options) (*Ring, error) {
	p := params{
		flags: setupCQSize | setupClamp | setupDisabled | setupSubmitAll | setupTaskrunFlag |
			setupSingleIssuer | setupDeferTaskrun | setupNoSQArray,
		cqEntries: uint32(8 * o.Entries),
	}
	fd, e := setup(o.Entries, &p)
	if e == unix.EINVAL { // before Linux 6.6
		p = params{flags: p.flags &^ setupNoSQArray, cqEntries: p.cqEntries}
		fd, e = setup(o.Entries, &p)
	}
	if e != 0 {
		return nil, fmt.Errorf("io_uring_setup: %w%s", e, hint(e))
	}
	r := &Ring{fd: fd, index: -1, size: o.BufferSize}
	err := r.mapQueues(&p)
	if err == nil {
		err = r.makePool(o.Buffers)
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// hint says what an errno of io_uring_setup means; strerror does not.
func hint(e syscall.Errno) string {
	switch e {
	case unix.ENOSYS:
		return ": this kernel has no io_uring, or hides it from this process"
	case unix.EPERM, unix.EACCES:
		return ": forbidden by kernel.io_uring_disabled or a seccomp filter"
	case unix.EINVAL:
		return ": needs Linux 6.1"
	case unix.ENOMEM:
		return ": more locked memory is needed than RLIMIT_MEMLOCK allows"
	}
	return ""
}

func setup(entries int, p *params) (int, syscall.Errno) {
	fd, _, e := syscall.RawSyscall(unix.SYS_IO_URING_SETUP, uintptr(entries), uintptr(unsafe.Pointer(p)), 0)
	return int(fd), e
}

func (r *Ring) register(op int, arg unsafe.Pointer, n int) (int, syscall.Errno) {
	m, _, e := syscall.RawSyscall6(unix.SYS_IO_URING_REGISTER, uintptr(r.fd), uintptr(op), uintptr(arg), uintptr(n), 0, 0)
	return int(m), e
}

func (r *Ring) mapQueues(p *params) (err error) {
	if p.features&(featSingleMmap|featExtArg) != featSingleMmap|featExtArg {
		return errors.New("io_uring: needs Linux 6.1")
	}
	size := int(p.cq.cqes) + int(p.cqEntries)*int(unsafe.Sizeof(CQE{}))
	if p.flags&setupNoSQArray == 0 {
		size = max(size, int(p.sq.array)+4*int(p.sqEntries))
	}
	const shared, both = unix.MAP_SHARED | unix.MAP_POPULATE, unix.PROT_READ | unix.PROT_WRITE
	if r.queues, err = unix.Mmap(r.fd, offSQRing, size, both, shared); err != nil {
		return fmt.Errorf("io_uring: map queues: %w", err)
	}
	size = int(p.sqEntries) * int(unsafe.Sizeof(SQE{}))
	if r.entries, err = unix.Mmap(r.fd, offSQEs, size, both, shared); err != nil {
		return fmt.Errorf("io_uring: map entries: %w", err)
	}
	at := func(off uint32) unsafe.Pointer { return unsafe.Pointer(&r.queues[off]) }
	r.sqHead, r.sqTail, r.sqFlags = (*uint32)(at(p.sq.head)), (*uint32)(at(p.sq.tail)), (*uint32)(at(p.sq.flags))
	r.cqHead, r.cqTail = (*uint32)(at(p.cq.head)), (*uint32)(at(p.cq.tail))
	r.cqes = unsafe.Slice((*CQE)(at(p.cq.cqes)), p.cqEntries)
	r.sqes = unsafe.Slice((*SQE)(unsafe.Pointer(&r.entries[0])), p.sqEntries)
	if p.flags&setupNoSQArray == 0 {
		for i := range p.sqEntries {
			*(*uint32)(at(p.sq.array + 4*i)) = i
		}
	}
	return nil
}

func (r *Ring) makePool(n int) (err error) {
	const private, both = unix.MAP_PRIVATE | unix.MAP_ANON, unix.PROT_READ | unix.PROT_WRITE
	if r.pool, err = unix.Mmap(-1, 0, n*r.size, both, private); err != nil {
		return fmt.Errorf("io_uring: map receive buffers: %w", err)
	}
	if r.bufs, err = unix.Mmap(-1, 0, n*int(unsafe.Sizeof(buffer{})), both, private); err != nil {
		return fmt.Errorf("io_uring: map buffer ring: %w", err)
	}
	r.ring = unsafe.Slice((*buffer)(unsafe.Pointer(&r.bufs[0])), n)
	reg := bufferReg{addr: uint64(uintptr(unsafe.Pointer(&r.bufs[0]))), entries: uint32(n)}
	if _, e := r.register(registerBufferRing, unsafe.Pointer(&reg), 1); e != 0 {
		return fmt.Errorf("io_uring: register receive buffers: %w", e)
	}
	r.offer(firstBuffers)
	return nil
}

// Enable binds the ring to the calling thread. Whatever follows runs on it, Close
// included.
func (r *Ring) Enable() error {
	if _, e := r.register(registerEnable, nil, 0); e != 0 {
		return fmt.Errorf("io_uring: enable: %w", e)
	}
	r.enabled = true
	// Saves the kernel a look-up in each enter; a thread has room for 16.
	u := rsrcUpdate{offset: ^uint32(0), data: uint64(r.fd)}
	if n, e := r.register(registerRingFDs, unsafe.Pointer(&u), 1); e == 0 && n == 1 {
		r.index = int(u.offset)
	}
	return nil
}

// Enabled reports whether Enable has been called.
func (r *Ring) Enabled() bool { return r.enabled }

// Close gives everything back. Operations that are open end some time later; who minds
// cancels them first and waits.
func (r *Ring) Close() {
	if r.index >= 0 {
		u := rsrcUpdate{offset: uint32(r.index)}
		r.register(unregisterRingFDs, unsafe.Pointer(&u), 1)
	}
	unix.Close(r.fd)
	for _, m := range [][]byte{r.queues, r.entries, r.bufs, r.pool} {
		if m != nil {
			unix.Munmap(m)
		}
	}
	*r = Ring{fd: -1, index: -1}
}

// Next returns a cleared entry to fill in, valid until the next call, and its place
// in the order of all entries. A full queue is handed to the kernel; entries that even
// then have no room wait beside it. Loop goroutine. Does not block. No allocation
// unless entries have to wait.
func (r *Ring) Next() (s *SQE, at uint32) {
	if len(r.early) > 0 || r.queued() == len(r.sqes) {
		if r.enabled {
			r.Submit()
		}
		if len(r.early) > 0 || r.queued() == len(r.sqes) {
			r.early = append(r.early, SQE{})
			n := len(r.early) - 1
			return &r.early[n], r.tail + uint32(n)
		}
	}
	at = r.tail
	r.tail++
	s = &r.sqes[at&uint32(len(r.sqes)-1)]
	*s = SQE{}
	return s, at
}

// Held returns the entry at a place while the kernel has not seen it, else nil.
func (r *Ring) Held(at uint32) *SQE {
	if at-atomic.LoadUint32(r.sqHead) < uint32(r.queued()) {
		return &r.sqes[at&uint32(len(r.sqes)-1)]
	}
	if n := at - r.tail; n < uint32(len(r.early)) {
		return &r.early[n]
	}
	return nil
}

// queued returns how many entries of the queue the kernel has not seen.
func (r *Ring) queued() int { return int(r.tail - atomic.LoadUint32(r.sqHead)) }

// Pending reports whether an enter has something to hand over or to fetch.
func (r *Ring) Pending() bool {
	return r.queued() > 0 || len(r.early) > 0 || atomic.LoadUint32(r.sqFlags)&(sqTaskrun|sqCQOverflow) != 0
}

// Submit hands all entries to the kernel, which begins them: what needs no waiting is
// done on return. Completions of other operations do not come in. Loop goroutine.
// Does not block.
func (r *Ring) Submit() { r.handOver(0) }

// Enter is Submit, and brings in what has completed. An error means that the ring is
// of no use any more. Loop goroutine. Does not block.
func (r *Ring) Enter() error {
	r.handOver(enterGetEvents)
	switch r.refused {
	case 0, unix.EINTR, unix.EAGAIN, unix.EBUSY:
		// The kernel is short of memory or of room for completions: take those
		// that are there and try again.
		return nil
	}
	return fmt.Errorf("io_uring_enter: %w", r.refused)
}

func (r *Ring) handOver(flags uintptr) {
	for {
		atomic.StoreUint32(r.sqTail, r.tail)
		n, e := r.enter(r.queued(), 0, flags, false)
		r.refused = e
		if len(r.early) == 0 || e != 0 || n == 0 {
			return
		}
		k := min(len(r.early), len(r.sqes)-r.queued())
		for _, s := range r.early[:k] {
			r.sqes[r.tail&uint32(len(r.sqes)-1)] = s
			r.tail++
		}
		r.early = r.early[:copy(r.early, r.early[k:])]
	}
}

// Wait sleeps until something completes, for at most d; below 0, for ever. A signal
// ends it early. Loop goroutine. Blocks.
//
// The first part of the wait is a raw call, which Go's scheduler does not see: each
// sleep that it sees wakes its monitor thread every 20 us. A raw call may be this long
// because the runtime stops threads by signal, and a signal ends the wait.
func (r *Ring) Wait(d time.Duration) error {
	first := rawWait
	if d >= 0 {
		first = min(first, d)
	}
	e := r.sleep(first, false)
	if e == unix.ETIME && d != first {
		if d > 0 {
			d -= first
		}
		e = r.sleep(d, true)
	}
	switch e {
	case 0, unix.ETIME, unix.EINTR, unix.EAGAIN, unix.EBUSY:
		return nil
	}
	return fmt.Errorf("io_uring_enter: %w", e)
}

func (r *Ring) sleep(d time.Duration, seen bool) syscall.Errno {
	r.arg = eventsArg{}
	if d >= 0 {
		r.limit = timespec{int64(d / time.Second), int64(d % time.Second)}
		r.arg.ts = uint64(uintptr(unsafe.Pointer(&r.limit)))
	}
	_, e := r.enter(0, 1, enterGetEvents|enterExtArg, seen)
	return e
}

// enter is the system call; seen: by the scheduler, because it may take long.
func (r *Ring) enter(submit, wait int, flags uintptr, seen bool) (int, syscall.Errno) {
	fd := r.fd
	if r.index >= 0 {
		fd = r.index
		flags |= enterRegistered
	}
	var arg unsafe.Pointer
	var size uintptr
	if flags&enterExtArg != 0 {
		arg, size = unsafe.Pointer(&r.arg), unsafe.Sizeof(r.arg)
	}
	var n uintptr
	var e syscall.Errno
	if seen {
		n, _, e = syscall.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(fd), uintptr(submit), uintptr(wait), flags, uintptr(arg), size)
	} else {
		n, _, e = syscall.RawSyscall6(unix.SYS_IO_URING_ENTER, uintptr(fd), uintptr(submit), uintptr(wait), flags, uintptr(arg), size)
	}
	return int(n), e
}

// Ready returns how many completions are there. Loop goroutine.
func (r *Ring) Ready() int {
	return int(atomic.LoadUint32(r.cqTail) - atomic.LoadUint32(r.cqHead))
}

// At returns the completion i of those that are there, valid until Advance.
func (r *Ring) At(i int) *CQE {
	return &r.cqes[(atomic.LoadUint32(r.cqHead)+uint32(i))&uint32(len(r.cqes)-1)]
}

// Advance gives the first n completions back.
func (r *Ring) Advance(n int) { atomic.StoreUint32(r.cqHead, atomic.LoadUint32(r.cqHead)+uint32(n)) }

// Buffer returns the memory of a buffer that a completion names. It is ours until
// Return.
func (r *Ring) Buffer(id uint16) []byte {
	at := int(id) * r.size
	return r.pool[at : at+r.size : at+r.size]
}

// Return gives a buffer back to the pool.
func (r *Ring) Return(id uint16) {
	// The tail lies in the first entry. A plain store will do: the kernel reads it in
	// enters of this thread only.
	tail := &r.ring[0].tail
	b := &r.ring[int(*tail)&(len(r.ring)-1)]
	b.addr, b.size, b.id = uint64(uintptr(unsafe.Pointer(&r.pool[int(id)*r.size]))), uint32(r.size), id
	*tail++
}

// Grow puts one more buffer on offer, up to Options.Buffers: for each receive that met an
// empty pool and failed with ENOBUFS.
func (r *Ring) Grow() { r.offer(1) }

func (r *Ring) offer(more int) {
	for more = min(more, len(r.ring)-r.posted); more > 0; more-- {
		r.Return(uint16(r.posted))
		r.posted++
	}
}
