package httpwire

import "testing"

// request150 is what the driver sends: 150 bytes, four fields.
const request150 = "GET /file_set/dir00123/class1_4 HTTP/1.1\r\n" +
	"Host: 192.168.10.21:8080\r\n" +
	"User-Agent: tidemark/1\r\n" +
	"Accept: text/html,*/*;q=0.8\r\n" +
	"Connection: keep-alive\r\n\r\n"

const requestBrowser = "GET /web99/cad?/file_set/dir00123/class1_4 HTTP/1.1\r\n" +
	"Host: www.example.com\r\n" +
	"Connection: keep-alive\r\n" +
	"Cache-Control: max-age=0\r\n" +
	"Upgrade-Insecure-Requests: 1\r\n" +
	"User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36\r\n" +
	"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n" +
	"Accept-Encoding: gzip, deflate, br, zstd\r\n" +
	"Accept-Language: en-GB,en;q=0.9\r\n" +
	"Cookie: my_cookie=user_id=10001&last_ad=20\r\n" +
	"If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n"

const response150 = "HTTP/1.1 200 OK\r\n" +
	"Server: tidemark\r\n" +
	"Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n" +
	"Content-Type: text/html\r\n" +
	"Content-Length: 102400\r\n" +
	"Connection: keep-alive\r\n\r\n"

func BenchmarkParseRequest(b *testing.B) {
	for _, c := range []struct{ name, text string }{
		{"150B", request150},
		{"browser", requestBrowser},
		{"shortest", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"},
	} {
		b.Run(c.name, func(b *testing.B) {
			var r Request
			in := []byte(c.text)
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				if n, _ := ParseRequest(in, &r, nil); n != len(in) {
					b.Fatal(n)
				}
			}
		})
	}
}

func BenchmarkParseResponse(b *testing.B) {
	var r Response
	in := []byte(response150)
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		if n, _ := ParseResponse(in, &r, nil); n != len(in) {
			b.Fatal(n)
		}
	}
}

func BenchmarkChunks(b *testing.B) {
	var in []byte
	for range 8 {
		in = AppendChunkHead(in, 8192)
		in = append(in, make([]byte, 8192)...)
		in = append(in, "\r\n"...)
	}
	in = append(in, LastChunk...)
	dst := make([]byte, 0, len(in))
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		var c Chunks
		if _, _, done, _ := c.Decode(dst, in); !done {
			b.Fatal("not done")
		}
	}
}

func BenchmarkCleanPath(b *testing.B) {
	dst := make([]byte, 0, 256)
	for _, in := range []string{"/file_set/dir00123/class1_4", "/a/./b/../%7Euser/index.html"} {
		b.Run(in[1:2], func(b *testing.B) {
			path := []byte(in)
			b.ReportAllocs()
			for b.Loop() {
				CleanPath(dst, path)
			}
		})
	}
}

func BenchmarkAppendDate(b *testing.B) {
	dst := make([]byte, 0, 64)
	for b.Loop() {
		AppendDate(dst, 784111777)
	}
}

func BenchmarkParseDate(b *testing.B) {
	in := []byte("Sun, 06 Nov 1994 08:49:37 GMT")
	for b.Loop() {
		ParseDate(in)
	}
}

func BenchmarkAppendHead(b *testing.B) {
	dst := make([]byte, 0, 256)
	for b.Loop() {
		h := AppendStatusLine(dst, 11, 200)
		h = AppendField(h, "Content-Type", "text/html")
		h = append(h, "Content-Length: "...)
		h = AppendInt(h, 102400)
		_ = append(h, "\r\n\r\n"...)
	}
}
