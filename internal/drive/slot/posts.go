package slot

import (
	"encoding/binary"
	"slices"

	"tidemark.dev/internal/ground/fault"
	"tidemark.dev/internal/model/web99"
)

// posts lists the POSTs sent, in blocks, so that an operation may hold a pointer to its own entry.
type posts struct{ blocks [][]Post }

const postBlock = 4096

// add notes a POST as uncertain. It allocates once in 4,096 calls.
func (p *posts) add(s *slot) *Post {
	if n := len(p.blocks); n == 0 || len(p.blocks[n-1]) == postBlock {
		p.blocks = append(p.blocks, make([]Post, 0, postBlock))
	}
	last := &p.blocks[len(p.blocks)-1]
	f := s.op.File
	*last = append(*last, Post{Dir: f.Dir, Class: f.Class, Num: f.Num, User: s.op.User + web99.UserOffset, Client: s.number})
	return &(*last)[len(*last)-1]
}

// all returns a copy of the list.
func (p *posts) all() []Post {
	var out []Post
	for _, b := range p.blocks {
		out = append(out, b...)
	}
	return out
}

// postBytes is the encoded size of a Post.
const postBytes = 15

func appendPosts(b []byte, list []Post) []byte {
	b = slices.Grow(b, len(list)*postBytes)
	for _, p := range list {
		b = binary.LittleEndian.AppendUint32(b, uint32(p.Dir))
		b = binary.LittleEndian.AppendUint32(b, uint32(p.User))
		b = binary.LittleEndian.AppendUint32(b, p.Client)
		b = append(b, p.Class, p.Num, byte(p.State))
	}
	return b
}

func parsePosts(b []byte) ([]Post, error) {
	if len(b)%postBytes != 0 {
		return nil, fault.New(fault.Driver, "list of POSTs has %d bytes", len(b))
	}
	list := make([]Post, 0, len(b)/postBytes)
	for ; len(b) > 0; b = b[postBytes:] {
		list = append(list, Post{
			Dir: int32(binary.LittleEndian.Uint32(b)), User: int32(binary.LittleEndian.Uint32(b[4:])),
			Client: binary.LittleEndian.Uint32(b[8:]), Class: b[12], Num: b[13], State: PostState(b[14]),
		})
	}
	return list, nil
}
