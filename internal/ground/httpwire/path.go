package httpwire

import "bytes"

// CleanPath appends to dst the path that a resource lookup should use: percent
// escapes decoded once, runs of slashes joined, "." and ".." resolved. The result
// starts with exactly one slash and keeps a final one ("/a/." gives "/a/").
// One such form is meant to feed routing, access rules and lookup alike.
//
// It refuses, with dst as it was, a path that does not start with a slash, climbs
// above the root, has a malformed escape, or holds after decoding a NUL or other
// control, an encoded slash (two readings), or a backslash (a separator to others).
//
// Any goroutine. No allocation if dst has len(path) bytes of room. Never blocks.
// path and dst must not overlap.
func CleanPath(dst, path []byte) (out []byte, ok bool) {
	if len(path) == 0 || path[0] != '/' {
		return dst, false
	}
	root := len(dst)
	for i := 0; ; {
		for i < len(path) && path[i] == '/' {
			i++
		}
		dst = append(dst, '/')
		segment := len(dst)
		if dst, i = appendSegment(dst, path, i); i < 0 {
			return dst[:root], false
		}
		last := i == len(path)
		switch string(dst[segment:]) {
		case ".":
			dst = dst[:segment-1]
		case "..":
			dst = dst[:segment-1]
			if len(dst) == root {
				return dst, false
			}
			dst = dst[:root+bytes.LastIndexByte(dst[root:], '/')]
		default:
			if last {
				return dst, true
			}
			continue
		}
		if last {
			return append(dst, '/'), true
		}
	}
}

// appendSegment appends the decoded bytes of path[i] up to the next slash and
// returns the index of that slash, or -1.
func appendSegment(dst, path []byte, i int) ([]byte, int) {
	for {
		start := i
		for i < len(path) && class[path[i]]&inPath != 0 {
			i++
		}
		dst = append(dst, path[start:i]...)
		if i == len(path) || path[i] == '/' {
			return dst, i
		}
		if path[i] != '%' || len(path)-i < 3 {
			return dst, -1
		}
		high, low := unhex(path[i+1]), unhex(path[i+2])
		if high > 15 || low > 15 {
			return dst, -1
		}
		c := high<<4 | low
		if class[c]&inPath == 0 && c != '%' {
			return dst, -1
		}
		dst = append(dst, c)
		i += 3
	}
}
