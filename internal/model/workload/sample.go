package workload

import (
	"math"
	"math/bits"

	"tidemark.dev/internal/model/fileset"
)

// Op is one drawn operation.
type Op struct {
	Index  uint64 // place in the sequence of its slot, from 0
	File   fileset.File
	User   int32 // index of the user, from 0, for kinds CAD and Post; -1 for the others, which send no cookie
	LastAd int32 // last_ad of the cookie for kind CAD; -1 for the others
	Kind   Kind
	First  bool // first request of its session: goes out on a new connection
	Last   bool // last request of its session: Connection: close, the server closes
	HTTP10 bool // the session speaks HTTP/1.0; unless Last it asks for Connection: keep-alive
	Start  bool // drawn by First, length-biased: left out when counts are tested against the shares
}

// Cursor is the place of a slot in its sequence: a plain value of 24 bytes. Set
// Seed and Slot, leave the rest zero.
type Cursor struct {
	Seed  uint64 // of the run's draws
	Index uint64 // of the next operation
	Slot  uint32 // global number of the slot
	left  uint8  // requests left in the session
	proto uint8  // 1: the session speaks HTTP/1.0
}

// Left returns how many requests the session of the last drawn op still has.
func (c *Cursor) Left() int { return int(c.left) }

// Sampler draws the operations of one workload over one number of directories
// and users. It is read-only: all slots of an agent share it.
type Sampler struct {
	files alias // by 9 x class + num
	heavy alias // the same, weighted by length as well
	dirs  alias
	kinds alias
	left  alias // requests left of a keep-alive session caught at a random request

	single       uint64 // cuts of 53 random bits
	singleCaught uint64
	http10       [2]uint64 // by keep-alive no, yes
	shortest     uint64
	spread       uint64 // longest - shortest + 1
	users, ads   uint64

	fileShare []float64 // by 9 x class + num
	dirShare  []float64
	kindShare [Kinds]float64
	meanFile  float64
}

// typicalHead is how many bytes beside the file a response has, for the length
// bias of First only: headers, and the wrapper of three in ten. The published
// pages imply 165 to 293.
const typicalHead = 250

// Sampler builds the tables for a number of directories (1 to fileset.MaxDirs)
// and users (1 to MaxUsers); anything else is a defect of the caller and panics.
// The workload must be valid, as Parse and Preset return it.
func (w *Workload) Sampler(dirs, users int) *Sampler {
	if dirs < 1 || dirs > fileset.MaxDirs || users < 1 || users > MaxUsers {
		panic("workload: sampler needs 1 to 100000 directories and users")
	}
	s := &Sampler{
		shortest:  uint64(w.Sessions.Shortest),
		spread:    uint64(w.Sessions.Longest - w.Sessions.Shortest + 1),
		users:     uint64(users),
		ads:       uint64(w.Ads.Count),
		fileShare: make([]float64, fileset.FilesPerDir),
		dirShare:  zipf(dirs, w.Files.Directories.Zipf),
		kindShare: w.Mix.Shares(),
	}
	rank := zipf(fileset.FilesPerClass, w.Files.Zipf)
	heavy := make([]float64, fileset.FilesPerDir)
	for class, c := range w.Files.Class {
		for place, num := range w.Files.Order {
			i := class*fileset.FilesPerClass + num
			size := float64(fileset.FileAt(int64(i)).Size())
			s.fileShare[i] = c.Share * rank[place]
			heavy[i] = s.fileShare[i] * (size + typicalHead)
			s.meanFile += float64(s.fileShare[i] * size)
		}
	}
	s.files, s.heavy = newAlias(s.fileShare), newAlias(heavy)
	s.dirs = newAlias(s.dirShare)
	s.kinds = newAlias(s.kindShare[:])

	// A request caught at random lies in a session of k requests with weight k,
	// at any place of it: j are left in as many ways as there are lengths above j.
	left := make([]float64, w.Sessions.Longest)
	for j := range left {
		left[j] = float64(w.Sessions.Longest - max(j, w.Sessions.Shortest-1))
	}
	s.left = newAlias(left)
	p, m := w.Sessions.single(), w.Sessions.mean()
	s.single = cut(p)
	s.singleCaught = cut(p / (p + float64((1-p)*m)))
	s.http10 = [2]uint64{cut(w.Sessions.HTTP10Single), cut(w.Sessions.HTTP10Keepalive)}
	return s
}

// zipf returns the n shares proportional to 1/rank^exponent, rank from 1.
func zipf(n int, exponent float64) []float64 {
	p := make([]float64, n)
	sum := 0.0
	for i := n - 1; i >= 0; i-- { // small ones first, for the sum
		if p[i] = 1 / float64(i+1); exponent != 1 {
			p[i] = math.Pow(p[i], exponent)
		}
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}

// cut returns the number of the 2^53 equally likely draws that fall below p.
func cut(p float64) uint64 { return uint64(p * (1 << 53)) }

// The random words of an operation. Word w of op i of a slot is output number
// 8 x i + w of the splitmix64 stream of the slot, so that any of them can be had
// without the ones before, and a draw that is not needed shifts no other.
const (
	wordFile = iota
	wordDir
	wordKind
	wordUser
	wordAd
	wordSingle // a new session: one request or several
	wordLength // and how many
	wordOnce   // protocol of a new session
	words
)

const golden = 0x9E3779B97F4A7C15 // 2^64 / phi, odd: increment of splitmix64

// mix is the output function of splitmix64.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// drawsDomain keeps the streams of slots apart from those of file contents,
// should a run use one seed for both.
const drawsDomain = 0x7469_6465_6472_6177 // "tidedraw"

// stream returns the state before word 0 of the current op of a cursor.
func (c *Cursor) stream() uint64 {
	slot := mix((c.Seed ^ drawsDomain) + golden*(uint64(c.Slot)+1))
	return slot + golden*(c.Index*words+1)
}

func word(stream uint64, w uint64) uint64 { return mix(stream + golden*w) }

// Next draws the next operation of the slot and moves the cursor past it. The
// sequence is a pure function of seed and slot, whoever draws it.
//
// Any goroutine, one per cursor. No allocation. Never blocks.
func (s *Sampler) Next(c *Cursor, op *Op) {
	z := c.stream()
	first := c.left == 0
	if first {
		keep := uint64(0)
		if word(z, wordSingle)>>11 >= s.single {
			keep = 1
			extra, _ := bits.Mul64(word(z, wordLength), s.spread)
			c.left = uint8(s.shortest + extra)
		} else {
			c.left = 1
		}
		c.proto = s.protocol(z, keep)
	}
	c.left--
	s.fill(c, op, z, s.files)
	op.First, op.Start = first, false
}

// First draws, instead of Next, the operation a slot finds itself in at a random
// instant of an endless sequence, so that a population of slots is stationary
// from its start: long responses in proportion to their length, a session at a
// random place. done, uniform in [0, 1), is the fraction of the response that
// has passed already and is read unpaced. The session the cursor was in is given
// up; op.First is set, because the slot needs a connection.
//
// Any goroutine, one per cursor. No allocation. Never blocks.
func (s *Sampler) First(c *Cursor, op *Op) (done float64) {
	z := c.stream()
	if word(z, wordSingle)>>11 < s.singleCaught {
		c.left, c.proto = 0, s.protocol(z, 0)
	} else {
		c.left, c.proto = uint8(s.left.draw(word(z, wordLength))), s.protocol(z, 1)
	}
	s.fill(c, op, z, s.heavy)
	op.First, op.Start = true, true
	// One more word, of the stream that no op index reaches: ^z.
	return float64(mix(^z)>>11) / (1 << 53)
}

func (s *Sampler) protocol(z, keep uint64) uint8 {
	if word(z, wordOnce)>>11 < s.http10[keep] {
		return 1
	}
	return 0
}

// fill draws what every op has and moves the cursor.
func (s *Sampler) fill(c *Cursor, op *Op, z uint64, files alias) {
	file := files.draw(word(z, wordFile))
	op.Index = c.Index
	op.File = fileset.File{
		Dir:   int32(s.dirs.draw(word(z, wordDir))),
		Class: uint8(file / fileset.FilesPerClass),
		Num:   uint8(file % fileset.FilesPerClass),
	}
	op.Kind = Kind(s.kinds.draw(word(z, wordKind)))
	op.User, op.LastAd = -1, -1
	if op.Kind == CAD || op.Kind == Post {
		user, _ := bits.Mul64(word(z, wordUser), s.users)
		op.User = int32(user)
	}
	if op.Kind == CAD {
		ad, _ := bits.Mul64(word(z, wordAd), s.ads)
		op.LastAd = int32(ad)
	}
	op.Last = c.left == 0
	op.HTTP10 = c.proto == 1
	c.Index++
}

// MeanFileBytes returns the law's mean file size in bytes: 14,727 for web99.
func (s *Sampler) MeanFileBytes() float64 { return s.meanFile }

// MeanBits returns the law's mean bits per operation; headerBits is the mean of
// everything that is not the file: status line, headers, and the wrapper of
// dynamic pages weighted by their share.
func (s *Sampler) MeanBits(headerBits float64) float64 {
	return headerBits + float64(8*s.meanFile)
}

// ClassShare returns the expected share of each class.
func (s *Sampler) ClassShare() []float64 {
	p := make([]float64, fileset.Classes)
	for i, x := range s.fileShare {
		p[i/fileset.FilesPerClass] += x
	}
	return p
}

// FileShare returns the expected share of each file number, over all classes.
func (s *Sampler) FileShare() []float64 {
	p := make([]float64, fileset.FilesPerClass)
	for i, x := range s.fileShare {
		p[i%fileset.FilesPerClass] += x
	}
	return p
}

// DirShare returns the expected share of each directory.
func (s *Sampler) DirShare() []float64 { return append([]float64(nil), s.dirShare...) }

// KindShare returns the expected share of each kind.
func (s *Sampler) KindShare() []float64 { return append([]float64(nil), s.kindShare[:]...) }
