package files

import (
	"maps"
	"strings"
)

// Types maps the extension of a name to a content type. It is built once and then only read.
type Types struct {
	byExtension map[string]string
	none        string // names without an extension
	unknown     string // extensions that are not in the table
}

// The types of names the table says nothing about.
const (
	defaultNone    = "text/plain; charset=utf-8"
	defaultUnknown = "application/octet-stream"
)

// NewTypes returns the built-in table with more laid over it. Keys are extensions in lower case without
// the dot; "" gives the type of names without extension, "*" that of unknown extensions.
//
// The operating system's tables are not read: the same server answers the same everywhere.
func NewTypes(more map[string]string) *Types {
	t := &Types{byExtension: builtin(), none: defaultNone, unknown: defaultUnknown}
	maps.Copy(t.byExtension, more)
	if v, ok := more[""]; ok {
		t.none = v
	}
	if v, ok := more["*"]; ok {
		t.unknown = v
	}
	return t
}

// Of returns the content type of a file by its path.
func (t *Types) Of(path string) string {
	name := path[strings.LastIndexByte(path, '/')+1:]
	dot := strings.LastIndexByte(name, '.')
	if dot <= 0 || dot == len(name)-1 {
		return t.none
	}
	if v, ok := t.byExtension[strings.ToLower(name[dot+1:])]; ok {
		return v
	}
	return t.unknown
}

// builtin is the table, from the IANA registry of media types (read 2026-11). Text types say UTF-8.
func builtin() map[string]string {
	return map[string]string{
		"html": "text/html; charset=utf-8", "htm": "text/html; charset=utf-8", "xhtml": "application/xhtml+xml",
		"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "mjs": "text/javascript; charset=utf-8",
		"txt": "text/plain; charset=utf-8", "text": "text/plain; charset=utf-8", "log": "text/plain; charset=utf-8",
		"md": "text/markdown; charset=utf-8", "csv": "text/csv; charset=utf-8", "vtt": "text/vtt; charset=utf-8",
		"ics": "text/calendar; charset=utf-8", "xml": "text/xml; charset=utf-8",
		"json": "application/json", "jsonld": "application/ld+json", "map": "application/json",
		"webmanifest": "application/manifest+json", "rss": "application/rss+xml", "atom": "application/atom+xml",
		"toml": "application/toml", "yaml": "application/yaml", "yml": "application/yaml",
		"wasm": "application/wasm", "pdf": "application/pdf", "zip": "application/zip", "gz": "application/gzip",
		"tar": "application/x-tar", "zst": "application/zstd", "7z": "application/x-7z-compressed",
		"svg": "image/svg+xml", "png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "gif": "image/gif",
		"webp": "image/webp", "avif": "image/avif", "ico": "image/vnd.microsoft.icon", "bmp": "image/bmp",
		"tif": "image/tiff", "tiff": "image/tiff", "jxl": "image/jxl", "heic": "image/heic",
		"woff": "font/woff", "woff2": "font/woff2", "ttf": "font/ttf", "otf": "font/otf",
		"mp3": "audio/mpeg", "ogg": "audio/ogg", "oga": "audio/ogg", "opus": "audio/ogg", "wav": "audio/wav",
		"flac": "audio/flac", "m4a": "audio/mp4", "aac": "audio/aac",
		"mp4": "video/mp4", "m4v": "video/mp4", "webm": "video/webm", "ogv": "video/ogg", "mov": "video/quicktime",
		"mpeg": "video/mpeg", "mpg": "video/mpeg", "m3u8": "application/vnd.apple.mpegurl", "mpd": "application/dash+xml",
		"ts": "video/mp2t", "bin": "application/octet-stream", "exe": "application/octet-stream",
		"iso": "application/octet-stream", "epub": "application/epub+zip", "rtf": "application/rtf",
		"doc": "application/msword", "xls": "application/vnd.ms-excel", "ppt": "application/vnd.ms-powerpoint",
	}
}
