package fileset

// HeaderLen is the length in bytes of the first line of every file.
const HeaderLen = 9 + 1 + PathLen - 1 + 1

// LineLen is the length in bytes of every line after the first, newline included.
const LineLen = 64

// Tag is the ad tag with its placeholder, as it stands in the files.
const Tag = `<!WEB99CAD><IMG SRC="/file_set/dirNNNNN/classX_Y"><!/WEB99CAD>`

// Content generates and checks the bytes of one file without storing them. It
// is a plain value; Init may be called again for another file.
type Content struct {
	key    uint64
	size   int64
	file   File
	tagged bool
	head   [HeaderLen]byte
}

// Init selects the file and the seed of the set.
func (c *Content) Init(f File, seed uint64) {}

// Size returns the length of the file in bytes.
func (c *Content) Size() int64 { return c.size }

// Fill writes the bytes at [off, off+len(dst)) of the file and returns how many
// of them lie inside it.
func (c *Content) Fill(dst []byte, off int64) int { return 0 }

// Check compares b with the bytes at off and returns the index in b of the
// first wrong byte, or -1. A byte beyond the end of the file is wrong.
func (c *Content) Check(b []byte, off int64) int { return -1 }

// Tags yields the offset of each 17-byte placeholder, in ascending order.
func (c *Content) Tags(yield func(off int64)) {}
