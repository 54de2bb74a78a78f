package httpwire

// CleanPath appends the decoded, dot-free form of an absolute path to dst.
func CleanPath(dst, path []byte) (out []byte, ok bool) { return dst, false }
