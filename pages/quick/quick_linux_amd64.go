package quick

import (
	"syscall"
	"unsafe"

	"tidemark.dev/internal/model/web99"
)

// Nothing here may allocate, panic or need a goroutine. web99.AppendHead keeps to that, given room.

// idle stands for the goroutine, of which compiled code reads the limit of the stack (0), and the first
// word of thread for the thread's pointer to it. They, and the memory that quick works in, are start's.
var (
	idle   [64]uintptr
	thread [2]uintptr
	given  = memory{
		how:  openHow{flags: syscall.O_RDONLY | syscall.O_NONBLOCK | syscall.O_CLOEXEC, resolve: beneath},
		wait: pollFD{fd: standardOutput, events: pollOut},
	}
)

// memory is all that an answer needs besides the stack. The kernel writes into it.
type memory struct {
	how    openHow
	wait   pollFD
	status syscall.Stat_t
}

type (
	openHow struct{ flags, mode, resolve uint64 }
	pollFD  struct {
		fd              int32
		events, revents int16
	}
)

// answer is apart from memory because it is not in the executable.
var answer buffer

type buffer [room + quickMost]byte

const (
	// room is what a header needs before the page; quickMost the largest page, of files up to a quarter of a
	// megabyte with what stands around them.
	room      = 128
	quickMost = 256<<10 + web99.MaxHead

	standardOutput = 1
	standardError  = 2
	pollOut        = 0x004
	forever        = ^uintptr(0)
	here           = ^uintptr(99) // AT_FDCWD
	openPath       = 0x200000     // O_PATH
	openat2        = 437
	beneath        = 0x08 | 0x02 // RESOLVE_BENEATH, RESOLVE_NO_MAGICLINKS
)

// variables are what quick has to know; any other is nothing to this page.
var variables = [...]string{"REQUEST_METHOD=", "QUERY_STRING=", "SCRIPT_NAME=", "SERVER_SOFTWARE=", "REMOTE_ADDR=", "TIDEMARK_ROOT=", "CONTENT_LENGTH="}

// stack is the beginning of a process's stack.
type stack struct {
	argc uintptr
	rest [1 << 16]*byte // arguments, nil, environment, nil
}

func start()

// quick answers and does not return, or returns having changed nothing.
//
// The first thread, before the runtime. No allocation. Blocks for the file and for standard output.
func quick(s *stack, m *memory, b *buffer) {
	if s.argc != 1 {
		return
	}
	var values [len(variables)][]byte
	for i := 2; ; i++ {
		if i == len(s.rest) { // more may follow
			return
		}
		if s.rest[i] == nil {
			break
		}
		e := text(s.rest[i])
		for k, name := range variables {
			if len(e) < len(name) || string(e[:len(name)]) != name {
				continue
			}
			if values[k] != nil { // there twice
				return
			}
			values[k] = e[len(name):]
		}
	}
	method, query, script, software, remote, root, length := values[0], values[1], values[2], values[3], values[4], values[5], values[6]
	if string(method) != "GET" || len(length) > 0 || len(root) == 0 || !isAddress(remote) || !isPath(query) {
		return
	}
	if 6*(len(software)+len(script)+len(query)) > web99.MaxHead/2 { // six bytes are the longest escape
		return
	}
	page := web99.AppendHead(b[room:room], &web99.Wrapper{Software: software, Remote: remote, Script: script, Query: query})
	m.answer(b, page, &root[0], &query[1])
}

// answer answers with a page's beginning and the file of a path below root, opened as page.RootFiles does. If it
// returns, the descriptors are as they were. Both names end with NUL.
func (m *memory) answer(b *buffer, page []byte, root, path *byte) {
	dir, ok := call(syscall.SYS_OPENAT, here, pointer(root), openPath|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if !ok {
		return
	}
	if dir > standardError { // or one of the three is closed: the runtime puts /dev/null there
		if fd, ok := call(openat2, dir, pointer(path), uintptr(unsafe.Pointer(&m.how)), unsafe.Sizeof(m.how)); ok {
			if page, ok = m.appendFile(page, fd); ok {
				page = append(page, web99.TailText...)
				m.write(b.prepend(len(page)))
			}
			call(syscall.SYS_CLOSE, fd, 0, 0, 0)
		}
	}
	call(syscall.SYS_CLOSE, dir, 0, 0, 0)
}

// appendFile appends a file, if it is a regular one and there is room.
func (m *memory) appendFile(page []byte, fd uintptr) (all []byte, ok bool) {
	if _, ok = call(syscall.SYS_FSTAT, fd, uintptr(unsafe.Pointer(&m.status)), 0, 0); !ok || m.status.Mode&syscall.S_IFMT != syscall.S_IFREG {
		return page, false
	}
	begin := len(page)
	if m.status.Size < 0 || m.status.Size > int64(cap(page)-begin-len(web99.TailText)) {
		return page, false
	}
	page = page[:begin+int(m.status.Size)]
	for at := begin; at < len(page); {
		n, ok := call(syscall.SYS_PREAD64, fd, pointer(&page[at]), uintptr(len(page)-at), uintptr(at-begin))
		if !ok || n == 0 {
			return page, false
		}
		at += int(n)
	}
	return page, true
}

// prepend puts the header before the page and returns both.
func (b *buffer) prepend(length int) []byte {
	const before, after = "Content-Type: text/html\r\nContent-Length: ", "\r\n\r\n"
	at := room - copy(b[room-len(after):], after)
	for n := length; ; n /= 10 {
		at--
		b[at] = byte('0' + n%10)
		if n < 10 {
			break
		}
	}
	at -= len(before)
	copy(b[at:], before)
	return b[at : room+length]
}

// write writes the answer and ends the process. If nothing can be written it returns: the usual start says why.
func (m *memory) write(b []byte) {
	for whole := len(b); len(b) > 0; {
		n, ok := call(syscall.SYS_WRITE, standardOutput, pointer(&b[0]), uintptr(len(b)), 0)
		switch {
		case ok:
			b = b[n:]
		case n == uintptr(syscall.EAGAIN):
			call(syscall.SYS_POLL, uintptr(unsafe.Pointer(&m.wait)), 1, forever, 0)
		case len(b) == whole:
			return
		default:
			call(syscall.SYS_EXIT_GROUP, 1, 0, 0, 0)
		}
	}
	call(syscall.SYS_EXIT_GROUP, 0, 0, 0, 0)
}

// call makes a system call; n is its errno if it failed.
func call(number, a, b, c, d uintptr) (n uintptr, ok bool) {
	for {
		n, _, errno := syscall.RawSyscall6(number, a, b, c, d, 0, 0)
		switch errno {
		case 0:
			return n, true
		case syscall.EINTR:
		default:
			return uintptr(errno), false
		}
	}
}

func pointer(p *byte) uintptr { return uintptr(unsafe.Pointer(p)) }

// text returns a string of C without its NUL.
func text(p *byte) []byte {
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return unsafe.Slice(p, n)
}

// isAddress reports whether b is an IPv4 address in its usual form.
func isAddress(b []byte) bool {
	parts, value, digits := 0, 0, 0
	for i := 0; i <= len(b); i++ {
		switch {
		case i == len(b) || b[i] == '.':
			if digits == 0 {
				return false
			}
			parts, value, digits = parts+1, 0, 0
		case b[i] < '0' || b[i] > '9' || digits > 0 && value == 0:
			return false
		default:
			if value = 10*value + int(b[i]-'0'); value > 255 {
				return false
			}
			digits++
		}
	}
	return parts == 4
}

// isPath reports whether b is an absolute path of letters, digits and underscores, as those of the file
// set are.
func isPath(b []byte) bool {
	last := byte(0)
	for i, c := range b {
		switch {
		case c == '/' && last == '/', c != '/' && i == 0:
			return false
		case c == '/', c == '_', '0' <= c && c <= '9', 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
		default:
			return false
		}
		last = c
	}
	return len(b) > 1 && last != '/'
}
