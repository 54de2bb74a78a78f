package web99

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const goldenHead = `<html>
<head><title>web99 Dynamic GET & POST Test</title></head>
<body>
<p>SERVER_SOFTWARE = Tidemark/1</p>
<p>REMOTE_ADDR = 192.0.2.1</p>
<p>SCRIPT_NAME = /web99/get</p>
<p>QUERY_STRING = /file_set/dir00000/class0_0</p>
<pre>
`

func goldenWrapper() Wrapper {
	return Wrapper{[]byte("Tidemark/1"), []byte("192.0.2.1"), []byte("/web99/get"), []byte("/file_set/dir00000/class0_0")}
}

func TestHeadIsGolden(t *testing.T) {
	w := goldenWrapper()
	if got := string(AppendHead(nil, &w)); got != goldenHead {
		t.Fatalf("got %s", got)
	}
	if got := string(Tail()); got != "\n</pre>\n</body>\n</html>\n" {
		t.Errorf("tail %q", got)
	}
}

func TestParseHeadAtEveryLength(t *testing.T) {
	page := goldenHead + "content"
	for i := range len(page) + 1 {
		var w Wrapper
		want := 0
		if i >= len(goldenHead) {
			want = len(goldenHead)
		}
		if got := ParseHead([]byte(page[:i]), &w); got != want {
			t.Fatalf("%d bytes: %d, want %d", i, got, want)
		}
	}
}

func TestParseHeadSeesEveryChange(t *testing.T) {
	for i := range len(goldenHead) {
		b := []byte(goldenHead)
		b[i] = '<' // in a value it ends the value too early; elsewhere it breaks the fixed text
		if goldenHead[i] == '<' {
			b[i] = 'x'
		}
		var w Wrapper
		if got := ParseHead(b, &w); got > 0 {
			t.Fatalf("byte %d changed to %q: accepted %d", i, b[i], got)
		}
	}
}

func TestParseHeadRefuses(t *testing.T) {
	for _, in := range []string{
		strings.Replace(goldenHead, "web99 D", "web98 D", 1),
		strings.Replace(goldenHead, "REMOTE_ADDR", "REMOTE_HOST", 1),
		strings.Replace(goldenHead, "192.0.2.1", "192\n0.2.1", 1),
		strings.Replace(goldenHead, "<p>REMOTE_ADDR = 192.0.2.1</p>\n", "", 1),
	} {
		var w Wrapper
		if got := ParseHead([]byte(in), &w); got != -1 {
			t.Errorf("%q: %d", in, got)
		}
	}
	endless := []byte(headOpen + labelServer + strings.Repeat("x", MaxHead))
	var w Wrapper
	if got := ParseHead(endless, &w); got != -1 {
		t.Errorf("endless head: %d", got)
	}
}

func TestHeadRoundTrips(t *testing.T) {
	value := rapid.SliceOfN(rapid.ByteRange(' ', 0xff).Filter(func(b byte) bool { return b != 0x7f }), 0, 40)
	rapid.Check(t, func(t *rapid.T) {
		w := Wrapper{value.Draw(t, "software"), value.Draw(t, "remote"), value.Draw(t, "script"), value.Draw(t, "query")}
		b := AppendHead(nil, &w)
		var got Wrapper
		if n := ParseHead(append(b, "<x>"...), &got); n != len(b) {
			t.Fatalf("%q: %d, want %d", b, n, len(b))
		}
		if !Holds(got.Software, w.Software) || !Holds(got.Remote, w.Remote) || !Holds(got.Script, w.Script) || !Holds(got.Query, w.Query) {
			t.Fatalf("%q does not hold %q", b, w)
		}
		other := value.Draw(t, "other")
		if Holds(got.Query, other) && !bytes.Equal(AppendEscaped(nil, other), got.Query) && !bytes.Equal(other, got.Query) {
			t.Fatalf("%q holds %q", got.Query, other)
		}
	})
}

func TestQueriesCannotInjectMarkup(t *testing.T) {
	w := goldenWrapper()
	w.Query = []byte("</p><script>\"x\"&y\r\n\x00")
	b := string(AppendHead(nil, &w))
	if want := "<p>QUERY_STRING = &lt;/p&gt;&lt;script&gt;&quot;x&quot;&amp;y   </p>\n"; !strings.Contains(b, want) {
		t.Errorf("%s", b)
	}
}

func TestHoldsUnescapedPages(t *testing.T) {
	for _, c := range []struct {
		escaped, value string
		want           bool
	}{
		{"a&b", "a&b", true}, {"a&amp;b", "a&b", true}, {"a&amp;b", "a&amp;b", true}, {"a&am", "a&", false},
		{"a", "ab", false}, {"ab", "a", false}, {"", "", true}, {"x ", "x\n", true},
	} {
		if got := Holds([]byte(c.escaped), []byte(c.value)); got != c.want {
			t.Errorf("Holds(%q, %q) = %v", c.escaped, c.value, got)
		}
	}
}

func BenchmarkParseHead(b *testing.B) {
	page := []byte(goldenHead)
	var w Wrapper
	for b.Loop() {
		if ParseHead(page, &w) != len(page) {
			b.Fatal()
		}
	}
}
