package server

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// BenchmarkAnswer measures one request and its answer over a kept connection on loopback, client
// included. What it is for are its allocations and comparisons between kinds of answers; CPU per request
// against other servers is the business of bench/.
func BenchmarkAnswer(b *testing.B) {
	s := serve(b, func(o *Options) {
		o.CacheValid = time.Second
		o.Pages = []Route{{Path: "/quiet", Page: &quiet{}}}
	})
	s.write("5k", pattern(5<<10))
	s.write("15k", pattern(15<<10))
	s.write("60k", pattern(60<<10))
	for _, c := range []struct {
		name, ask string
		answers   int
	}{
		{"memory-5k", request("GET", "/5k"), 1}, {"memory-15k", request("GET", "/15k"), 1}, {"sendfile-60k", request("GET", "/60k"), 1},
		{"page-5k", request("GET", "/quiet?/5k"), 1}, {"unchanged", request("GET", "/5k", "If-None-Match: *"), 1},
		{"pipelined-unchanged", strings.Repeat(request("GET", "/5k", "If-None-Match: *"), 16), 16},
	} {
		b.Run(c.name, func(b *testing.B) {
			w := s.dial()
			w.send(c.ask)
			for range c.answers {
				w.next("GET")
			}
			size := int(w.read)
			conn, err := net.Dial("tcp", s.addr)
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close()
			ask, buf := []byte(c.ask), make([]byte, size)
			b.ReportAllocs()
			b.SetBytes(int64(size))
			b.ResetTimer()
			for range b.N {
				if _, err := conn.Write(ask); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(conn, buf); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*c.answers), "ns/answer")
		})
	}
}
