package cgi

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
)

// What server and spawner say to each other; numbers are little endian. The server sends packets, beside
// which travel the descriptors they name; the answers are a stream.
//
//	start   kind 1, which of the three descriptors come along (bits), 2 bytes 0, number of arguments (4
//	        bytes), id (8), then strings that end with 0: program, directory, arguments, environment
//	kill    kind 2, 7 bytes 0, id (8)
//
//	answer  id (8), what (4), value (4)
const (
	toStart = 1
	toKill  = 2

	// maxPacket is the size in bytes of the largest packet. A kernel gives a socket twice
	// net.core.wmem_max at most, which is 416 KiB unless it was changed.
	maxPacket = 300 << 10

	packetHead = 16
	answerSize = 16
)

// What an answer says.
const (
	isReady    = 1 + iota // once, before all others, for no program; the value is the version
	hasEnded              // and was reaped; the value is the wait status
	notStarted            // the value is the error number
	isLost                // it has ended, but nobody knows how
)

// version of all this: the executable may be replaced while the server runs.
const version = 1

// packet is a message to the spawner as read. It keeps the bytes.
type packet struct {
	kind  byte
	files byte // bit i: descriptor i comes along
	id    uint64
	args  int
	text  []byte
}

// appendStart appends a start packet; ok is false, and b as it was, if that would be too large.
func appendStart(b []byte, c *command, id uint64) (_ []byte, ok bool) {
	size := packetHead + len(c.program) + len(c.dir) + 2
	for _, list := range [...][]string{c.args, c.env} {
		for _, s := range list {
			size += len(s) + 1
		}
	}
	if size > maxPacket {
		return b, false
	}
	if cap(b)-len(b) < size {
		b = append(make([]byte, 0, len(b)+size), b...)
	}
	var files byte
	for i, fd := range c.files {
		if fd >= 0 {
			files |= 1 << i
		}
	}
	b = append(b, toStart, files, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(c.args)))
	b = binary.LittleEndian.AppendUint64(b, id)
	b = append(append(b, c.program...), 0)
	b = append(append(b, c.dir...), 0)
	for _, list := range [...][]string{c.args, c.env} {
		for _, s := range list {
			b = append(append(b, s...), 0)
		}
	}
	return b, true
}

func appendKill(b []byte, id uint64) []byte {
	return binary.LittleEndian.AppendUint64(append(b, toKill, 0, 0, 0, 0, 0, 0, 0), id)
}

var errPacket = errors.New("cgi: a packet that makes no sense")

// parsePacket reads a packet.
func parsePacket(b []byte) (p packet, err error) {
	if len(b) < packetHead {
		return p, errPacket
	}
	p = packet{
		kind: b[0], files: b[1], args: int(binary.LittleEndian.Uint32(b[4:])),
		id: binary.LittleEndian.Uint64(b[8:]), text: b[packetHead:],
	}
	switch {
	case p.kind == toKill && p.files == 0 && len(p.text) == 0:
	case p.kind == toStart && p.args >= 0 && p.files < 1<<3 && len(p.text) > 0 && p.text[len(p.text)-1] == 0 && bytes.Count(p.text, []byte{0}) >= 2+p.args:
	default:
		return p, errPacket
	}
	return p, nil
}

// command returns what a start packet asks for, without its descriptors. It copies.
func (p *packet) command() command {
	all := strings.Split(string(p.text[:len(p.text)-1]), "\x00")
	return command{program: all[0], dir: all[1], args: all[2 : 2+p.args], env: all[2+p.args:], files: [3]int{-1, -1, -1}}
}

// answer is a message of the spawner.
type answer struct {
	id          uint64
	what, value uint32
}

func (a answer) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, a.id)
	b = binary.LittleEndian.AppendUint32(b, a.what)
	return binary.LittleEndian.AppendUint32(b, a.value)
}

// parseAnswer reads an answer of answerSize bytes.
func parseAnswer(b []byte) answer {
	return answer{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint32(b[8:]), binary.LittleEndian.Uint32(b[12:])}
}
