package accesslog

import (
	"bytes"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"tidemark.dev/internal/ground/binlog"
)

func record() *binlog.Record {
	return &binlog.Record{
		Time: 1700000000_123456789, Duration: time.Millisecond, Remote: netip.MustParseAddr("192.0.2.7"),
		Status: 200, Loop: 3, Bytes: 336, BodyBytes: 102,
		Method: []byte("GET"), Target: []byte("/a?b=1"), Proto: []byte("HTTP/1.1"), Host: []byte("www.example"),
	}
}

func TestLines(t *testing.T) {
	const clf = `192.0.2.7 - - [14/Nov/2023:22:13:20 +0000] "GET /a?b=1 HTTP/1.1" 200 102`
	for _, tt := range []struct {
		name     string
		change   func(*binlog.Record)
		offset   time.Duration
		combined bool
		want     string
	}{
		{"common", func(*binlog.Record) {}, 0, false, clf},
		{"combined without fields", func(*binlog.Record) {}, 0, true, clf + ` "-" "-"`},
		{"combined", func(r *binlog.Record) { r.Referer, r.Agent = []byte("http://x/"), []byte("curl/8 (a)") }, 0, true, clf + ` "http://x/" "curl/8 (a)"`},
		{"east", func(*binlog.Record) {}, 5*time.Hour + 45*time.Minute, false, `192.0.2.7 - - [15/Nov/2023:03:58:20 +0545] "GET /a?b=1 HTTP/1.1" 200 102`},
		{"west, seconds left out", func(*binlog.Record) {}, -(7*time.Hour + 59*time.Second), false, `192.0.2.7 - - [14/Nov/2023:15:13:20 -0700] "GET /a?b=1 HTTP/1.1" 200 102`},
		{"no body", func(r *binlog.Record) { r.Status, r.BodyBytes = 304, 0 }, 0, false, `192.0.2.7 - - [14/Nov/2023:22:13:20 +0000] "GET /a?b=1 HTTP/1.1" 304 -`},
		{"nothing known", func(r *binlog.Record) { *r = binlog.Record{Status: 400} }, 0, false, `- - - [01/Jan/1970:00:00:00 +0000] "-" 400 -`},
		{"no protocol", func(r *binlog.Record) { r.Proto = nil }, 0, false, `192.0.2.7 - - [14/Nov/2023:22:13:20 +0000] "GET /a?b=1" 200 102`},
		{"IPv6", func(r *binlog.Record) { r.Remote = netip.MustParseAddr("2001:db8::1") }, 0, false, `2001:db8::1 - - [14/Nov/2023:22:13:20 +0000] "GET /a?b=1 HTTP/1.1" 200 102`},
		{"forgery", func(r *binlog.Record) { r.Target = []byte("/\" 200 1\n\\\xff") }, 0, false, `192.0.2.7 - - [14/Nov/2023:22:13:20 +0000] "GET /\" 200 1\x0a\\\xff HTTP/1.1" 200 102`},
		{"a dash is no absence", func(r *binlog.Record) { r.Agent = []byte("-") }, 0, true, clf + ` "-" "\x2d"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := record()
			tt.change(r)
			write := AppendCLF
			if tt.combined {
				write = AppendCombined
			}
			if diff := cmp.Diff("> "+tt.want, string(write([]byte("> "), r, tt.offset))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestALineReadsBackAsItsRecord(t *testing.T) {
	text := func(t *rapid.T, label string) []byte {
		return []byte(rapid.OneOf(rapid.SampledFrom([]string{"", "-", `\`, `\x41`, "a b", "\"\n\r\t\x00\x7f\xff", "/ HTTP/x"}), rapid.String()).Draw(t, label))
	}
	rapid.Check(t, func(t *rapid.T) {
		// Up to a day short of the range, since the offset is added.
		r := &binlog.Record{
			Time:   rapid.Int64Range(-9e9, 9e9).Draw(t, "second") * 1e9,
			Status: rapid.Uint16Range(0, 999).Draw(t, "status"), BodyBytes: rapid.Int64Range(0, 1<<62).Draw(t, "body"),
			Method: []byte(rapid.StringMatching(`[A-Z!-]{1,9}`).Draw(t, "method")), Target: text(t, "target"),
			Proto: []byte(rapid.SampledFrom([]string{"HTTP/1.0", "HTTP/1.1"}).Draw(t, "proto")),
		}
		if rapid.Bool().Draw(t, "v6") {
			r.Remote = netip.MustParseAddr("2001:db8::7")
		}
		offset := time.Duration(rapid.IntRange(-12*60, 14*60).Draw(t, "offset")) * time.Minute
		write := AppendCLF
		if rapid.Bool().Draw(t, "combined") {
			r.Referer, r.Agent = text(t, "referer"), text(t, "agent")
			write = AppendCombined
		}
		line := write(nil, r, offset)
		var got binlog.Record
		if err := Parse(line, &got); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		for _, s := range []*[]byte{&r.Target, &r.Referer, &r.Agent, &got.Target, &got.Referer, &got.Agent} {
			if len(*s) == 0 {
				*s = nil
			}
		}
		if !reflect.DeepEqual(*r, got) {
			t.Fatalf("%s\nwritten %+v\nread    %+v", line, *r, got)
		}
		for _, c := range line {
			if c < ' ' || c > '~' {
				t.Fatalf("%q contains %q", line, c)
			}
		}
	})
}

func TestForeignLinesAreRead(t *testing.T) {
	for _, tt := range []struct {
		name, line string
		want       binlog.Record
	}{
		{
			"the classic example",
			`127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326`,
			binlog.Record{Time: 971211336e9, Remote: netip.MustParseAddr("127.0.0.1"), Status: 200, BodyBytes: 2326, Method: []byte("GET"), Target: []byte("/apache_pb.gif"), Proto: []byte("HTTP/1.0")},
		},
		{
			"a name, further fields and a line end",
			`www.example - - [10/Oct/2000:20:55:36 +0000] "GET / HTTP/2.0" 200 5 "-" "a" 0.004 "x` + "\r\n",
			binlog.Record{Time: 971211336e9, Status: 200, BodyBytes: 5, Method: []byte("GET"), Target: []byte("/"), Proto: []byte("HTTP/2.0"), Agent: []byte("a")},
		},
		{
			"a request that was none",
			`192.0.2.1 - - [10/Oct/2000:20:55:36 +0000] "\x16\x03\x01" 400 0`,
			binlog.Record{Time: 971211336e9, Remote: netip.MustParseAddr("192.0.2.1"), Status: 400, Method: []byte("\x16\x03\x01")},
		},
		{
			"escapes of others",
			`192.0.2.1 - - [10/Oct/2000:20:55:36 +0000] "GET /\t\n\r\q\x4\xzz HTTP/1.1" 400 0 further`,
			binlog.Record{Time: 971211336e9, Remote: netip.MustParseAddr("192.0.2.1"), Status: 400, Method: []byte("GET"), Target: []byte("/\t\n\rqx4xzz"), Proto: []byte("HTTP/1.1")},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := *record() // all of it must be replaced
			if err := Parse([]byte(tt.line), &got); err != nil {
				t.Fatal(err)
			}
			if len(got.Target) == 0 {
				got.Target = nil
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("read %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

func TestBadLinesNameTheColumn(t *testing.T) {
	const form = "a time like [02/Jan/2006:15:04:05 -0700]"
	for _, tt := range []struct{ line, want string }{
		{``, "column 1: expected the peer"},
		{`a -`, "column 4: expected the user"},
		{`a - - `, "column 7: expected " + form},
		{`a - - [10/Oct/2000:20:55:36 +0000`, "column 7: expected " + form},
		{`a - - [10/Okt/2000:20:55:36 +0000] "-" 200 0`, "column 7: expected " + form},
		{`a - - [10/anF/2000:20:55:36 +0000] "-" 200 0`, "column 7: expected " + form},
		{`a - - [32/Oct/2000:20:55:36 +0000] "-" 200 0`, "column 7: expected " + form},
		{`a - - [10/Oct/2000:24:55:36 +0000] "-" 200 0`, "column 7: expected " + form},
		{`a - - [10/Oct/2000:2x:55:36 +0000] "-" 200 0`, "column 7: expected " + form},
		{`a - - [10-Oct-2000:20:55:36 +0000] "-" 200 0`, "column 7: expected " + form},
		{`a - - [10/Oct/2000:20:55:36 *0000] "-" 200 0`, "column 7: expected " + form},
		{`a - - [10/Oct/2500:20:55:36 +0000] "-" 200 0`, "column 7: expected " + form},
		{`a - - [10/Oct/2000:20:55:36 +0000] GET`, "column 36: expected the request"},
		{`a - - [10/Oct/2000:20:55:36 +0000] "GET`, "column 40: expected a quote to end the request"},
		{`a - - [10/Oct/2000:20:55:36 +0000] "GET\`, "column 41: expected a quote to end the request"},
		{`a - - [10/Oct/2000:20:55:36 +0000] "-" 1000 0`, "column 40: expected the status"},
		{`a - - [10/Oct/2000:20:55:36 +0000] "-" 20x 0`, "column 40: expected the status"},
		{`a - - [10/Oct/2000:20:55:36 +0000] "-" 200`, "column 43: expected the size"},
		{`a - - [10/Oct/2000:20:55:36 +0000] "-" 200 9999999999999999999`, "column 44: expected the size"},
		{`a - - [10/Oct/2000:20:55:36 +0000] "-" 200 0 "x" y`, "column 50: expected the agent"},
	} {
		r := *record()
		err := Parse([]byte(tt.line), &r)
		if err == nil || err.Error() != tt.want {
			t.Errorf("%s\ngot  %v\nwant %s", tt.line, err, tt.want)
		}
		if !reflect.DeepEqual(r, binlog.Record{}) {
			t.Errorf("%s: leaves %+v", tt.line, r)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326`))
	f.Add(AppendCombined(nil, record(), time.Hour))
	f.Add([]byte(`a - - [31/Feb/2000:20:55:60 +0000] "\x16\"" - - "\\" "-"`))
	f.Fuzz(func(t *testing.T, line []byte) {
		var one, two binlog.Record
		if Parse(line, &one) != nil {
			return
		}
		again := AppendCombined(nil, &one, 0)
		if err := Parse(again, &two); err != nil {
			t.Fatalf("%q is written %q: %v", line, again, err)
		}
		if one.Time != two.Time || one.Status != two.Status || one.BodyBytes != two.BodyBytes || one.Remote != two.Remote ||
			!bytes.Equal(one.Referer, two.Referer) || !bytes.Equal(one.Agent, two.Agent) {
			t.Fatalf("%q is written %q", line, again)
		}
	})
}

func TestWritingDoesNotAllocate(t *testing.T) {
	r := record()
	b := make([]byte, 0, 1024)
	if n := testing.AllocsPerRun(100, func() { b = AppendCombined(b[:0], r, time.Hour) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAppendCombined(b *testing.B) {
	r := record()
	var line []byte
	for b.Loop() {
		line = AppendCombined(line[:0], r, 0)
	}
}
