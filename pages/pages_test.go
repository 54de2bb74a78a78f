package pages

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tidemark.dev/internal/model/web99"
	"tidemark.dev/page"
)

const now = 1_700_000_000

// bench is a site over a directory with a small file set.
type bench struct {
	t     testing.TB
	dir   string
	ctx   *page.Context
	site  *Site
	get   page.Page
	cad   page.Page
	post  page.Page
	comm  page.Page
	files page.RootFiles
}

// content of a file: classes 1 and 2 carry tags, and so does one of class 3, where they must stay.
func content(class int, size int) string {
	line := strings.Repeat("?", 63) + "\n"
	s := strings.Repeat(line+line+"x"+web99.Tag+"\n", 1+size/192)
	return s[:max(size, 192*min(class, 1))]
}

func newBench(t testing.TB) *bench {
	b := &bench{t: t, dir: t.TempDir()}
	for class := range 4 {
		dir := filepath.Join(b.dir, "file_set", "dir00000")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, fmt.Sprintf("class%d_0", class))
		if err := os.WriteFile(name, []byte(content(class, 102*pow10(class))), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b.start()
	return b
}

func pow10(n int) int {
	p := 1
	for range n {
		p *= 10
	}
	return p
}

// start opens a new site over the same directory, as another process would.
func (b *bench) start() {
	b.t.Helper()
	files, err := page.Root(b.dir)
	if err != nil {
		b.t.Fatal(err)
	}
	b.files = files
	b.ctx = &page.Context{
		Files: files, Dir: b.dir, Software: "Test/1", Pid: 4321,
		Now: func() time.Time { return time.Unix(now, 0) },
	}
	b.site = NewSite(Options{})
	b.get, b.cad, b.post, b.comm = b.site.Get(), b.site.CAD(), b.site.Post(), b.site.Command()
	opened := []page.Page{b.get, b.cad, b.post, b.comm}
	for _, p := range opened {
		if err := p.Open(b.ctx); err != nil {
			b.t.Fatal(err)
		}
	}
	b.t.Cleanup(func() {
		for _, p := range opened {
			if err := p.Close(); err != nil {
				b.t.Error(err)
			}
		}
		files.Close()
	})
}

// answer is a served response, taken apart.
type answer struct {
	status  int
	ctype   string
	cookie  string
	wrapper web99.Wrapper
	content string
}

func (b *bench) do(p page.Page, rq page.Request) answer {
	b.t.Helper()
	if rq.Method == nil {
		rq.Method = []byte("GET")
	}
	rq.Script, rq.Remote = []byte("/script"), netip.MustParseAddr("192.0.2.7")
	var rs page.Response
	p.Serve(&rq, &rs)
	v := rs.View()
	body, err := v.File.AppendTo(append([]byte(nil), v.Head...))
	if err != nil {
		b.t.Fatal(err)
	}
	body = append(body, v.Tail...)
	if int64(len(body)) != v.Length {
		b.t.Fatalf("%d bytes, length says %d", len(body), v.Length)
	}
	rs.Reset()
	a := answer{status: v.Status, ctype: v.Type}
	n := web99.ParseHead(body, &a.wrapper)
	if n <= 0 || !strings.HasSuffix(string(body), web99.TailText) {
		b.t.Fatalf("no wrapper: %d %q", n, body)
	}
	a.content = string(body[n : len(body)-len(web99.TailText)])
	if fields := string(v.Fields); fields != "" {
		var ok bool
		a.cookie, ok = strings.CutPrefix(strings.TrimSuffix(fields, "\r\n"), "Set-Cookie: ")
		if !ok || strings.Contains(a.cookie, "\n") {
			b.t.Fatalf("fields %q", fields)
		}
	}
	if a.status != 200 || a.ctype != "text/html" || string(a.wrapper.Software) != "Test/1" || string(a.wrapper.Remote) != "192.0.2.7" ||
		string(a.wrapper.Script) != "/script" || !web99.Holds(a.wrapper.Query, rq.Query) {
		b.t.Fatalf("%+v", a)
	}
	return a
}

func query(format string, a ...any) page.Request {
	return page.Request{Query: fmt.Appendf(nil, format, a...)}
}

func asks(user, last int, q string) page.Request {
	return page.Request{Query: []byte(q), Cookie: web99.AppendCookie(nil, web99.Cookie{User: int32(user), LastAd: int32(last)})}
}

func posts(user int, body string) page.Request {
	rq := asks(user, 0, "")
	rq.Method, rq.Body = []byte("POST"), []byte(body)
	return rq
}

const goodPost = "urlroot=/file_set/&dir=00000&class=1&num=0&client=10018\r"

func (b *bench) reset(load int64) {
	b.t.Helper()
	a := b.do(b.comm, page.Request{Query: web99.AppendReset(nil, &web99.Reset{MaxLoad: load, PointTime: now, MaxThread: 1, ExpA: 10, ExpB: 10, URLRoot: []byte("/file_set/")})})
	if a.content != "" || a.cookie != "" {
		b.t.Fatalf("Reset answered %+v", a)
	}
}

// tables reads both tables as the driver does, through the standard GET.
func (b *bench) tables() *web99.Tables {
	b.t.Helper()
	users, ads := b.do(b.get, query("/User.Personality")), b.do(b.get, query("/Custom.Ads"))
	t, err := web99.ParseTables([]byte(users.content), []byte(ads.content))
	if err != nil {
		b.t.Fatal(err)
	}
	return t
}

func wantError(t testing.TB, a answer, message string) {
	t.Helper()
	if a.cookie != "found_cookie=Ad_id=-1&Ad_weight=0&Expired=1" || !strings.HasPrefix(a.content, "error: ") || !strings.Contains(a.content, message) {
		t.Errorf("want an error page with %q, got %q, cookie %q", message, a.content, a.cookie)
	}
}

func TestStandardGet(t *testing.T) {
	b := newBench(t)
	for class := range 4 {
		a := b.do(b.get, query("/file_set/dir00000/class%d_0", class))
		if a.content != content(class, 102*pow10(class)) || a.cookie != "" {
			t.Errorf("class %d: %d bytes, cookie %q", class, len(a.content), a.cookie)
		}
	}
	for _, q := range []string{"", "file_set/dir00000/class0_0", "/none", "/file_set", "/../x", "/<script>", "command/Fetch"} {
		wantError(t, b.do(b.get, query("%s", q)), "no")
	}
	rq := query("/file_set/dir00000/class0_0")
	rq.Method = []byte("PUT")
	wantError(t, b.do(b.get, rq), "only GET here, not: PUT")
	wantError(t, b.do(b.get, query("/User.Personality")), "tables: ")
}

func TestResetMakesTheTables(t *testing.T) {
	b := newBench(t)
	for load, users := range map[int64]int{0: 100, 100: 100, 101: 101, 5000: 5000, 100000: 100000, 1 << 40: 100000} {
		b.reset(load)
		tb := b.tables()
		if len(tb.Users) != users || Users(load) != users {
			t.Errorf("load %d: %d users, want %d", load, len(tb.Users), users)
		}
	}
	onDisk, err := os.ReadFile(filepath.Join(b.dir, web99.AdsName))
	if err != nil || string(onDisk) != b.do(b.get, query("/Custom.Ads")).content {
		t.Errorf("the page's ads are not the file's: %v", err)
	}
	left, err := filepath.Glob(filepath.Join(b.dir, ".*"))
	if err != nil || len(left) != 0 {
		t.Errorf("temporary files left: %v %v", left, err)
	}
}

func TestTablesFollowTheLaw(t *testing.T) {
	b := newBench(t)
	b.reset(5000)
	tb := b.tables()
	one := func(w, mask uint32) bool { w &= mask; return w != 0 && w&(w-1) == 0 }
	for i, w := range tb.Users {
		if !one(w, web99.GenderMask) || !one(w, web99.AgeMask) || !one(w, web99.RegionMask) || w&web99.Interest1Mask == 0 || w&web99.Interest2Mask == 0 || w>>30 != 0 {
			t.Fatalf("user %d: %08X", i, w)
		}
	}
	var expired, never, seen int
	for i := range tb.Ads {
		a := &tb.Ads[i]
		if a.Expiry < now {
			expired++
		}
		if a.Expiry < now-10*86400 || a.Expiry > now+10*86400 || a.MinMatch < 1 {
			t.Fatalf("ad %+v", a)
		}
		if a.Match(^uint32(0)) < a.MinMatch {
			never++
		}
	}
	for user := range int32(200) {
		for last := range int32(web99.Ads) {
			if f := tb.Select(user, last, now); f.Ad != last {
				seen++
			}
		}
	}
	if expired < 120 || expired > 240 || never < 36 || never > 144 || seen < 200*web99.Ads*9/10 {
		t.Errorf("of 360 ads %d have expired and %d never match; %d of %d rotations found one", expired, never, seen, 200*web99.Ads)
	}
}

func TestTablesAreAFunctionOfTheirParameters(t *testing.T) {
	b := newBench(t)
	b.reset(500)
	first := b.tables()
	b.reset(501)
	other := b.tables()
	b.reset(500)
	again := b.tables()
	if fmt.Sprint(first) != fmt.Sprint(again) {
		t.Error("the same Reset gave other tables")
	}
	if first.Users[0] == other.Users[0] && first.Users[1] == other.Users[1] && first.Users[2] == other.Users[2] {
		t.Error("another load gave the same users")
	}
}

func TestCustomAdGet(t *testing.T) {
	b := newBench(t)
	b.reset(200)
	tb := b.tables()
	for class := range 4 {
		for user := range int32(10) {
			last := user * 35
			want := tb.Select(user, last, now)
			a := b.do(b.cad, asks(int(user)+web99.UserOffset, int(last), fmt.Sprintf("/file_set/dir00000/class%d_0", class)))
			if a.cookie != string(web99.AppendFound(nil, want)) {
				t.Fatalf("user %d: %s, want %+v", user, a.cookie, want)
			}
			text := content(class, 102*pow10(class))
			if class == 1 || class == 2 {
				text = strings.ReplaceAll(text, "dirNNNNN/classX_Y", string(web99.AppendAdFile(nil, want.Ad)))
			}
			if a.content != text {
				t.Fatalf("class %d, user %d: wrong content of %d bytes", class, user, len(a.content))
			}
		}
	}
}

func TestCustomAdGetFromMemory(t *testing.T) {
	b := newBench(t)
	b.reset(200)
	text := content(1, 1020)
	b.ctx.Files = page.Memory{"class1_0": []byte(text)}
	a := b.do(b.cad, asks(10000, 5, "/class1_0"))
	if strings.Contains(a.content, "NNNNN") || len(a.content) != len(text) {
		t.Errorf("%d bytes, %q", len(a.content), a.content)
	}
	if got := string(b.ctx.Files.(page.Memory)["class1_0"]); got != text {
		t.Error("the page wrote into the file's own memory")
	}
}

func TestCustomAdGetOfUnknownUsers(t *testing.T) {
	b := newBench(t)
	b.reset(200)
	const file = "/file_set/dir00000/class1_0"
	for _, c := range []web99.Cookie{{User: 10000 + 200}, {User: 9999}, {User: 10000, LastAd: 360}} {
		a := b.do(b.cad, asks(int(c.User), int(c.LastAd), file))
		if a.cookie != "found_cookie=Ad_id=-1&Ad_weight=0&Expired=1" || a.content != content(1, 1020) {
			t.Errorf("%v: %q, %d bytes", c, a.cookie, len(a.content))
		}
	}
	rq := query(file)
	wantError(t, b.do(b.cad, rq), "no cookie")
	rq.Cookie = []byte("my_cookie=user_id=x&last_ad=1")
	wantError(t, b.do(b.cad, rq), "no cookie")
	wantError(t, b.do(b.cad, asks(10000, 1, "/none")), "no such file")
	rq = asks(10000, 1, file)
	rq.Method = []byte("POST")
	wantError(t, b.do(b.cad, rq), "only GET")
}

func TestEveryProcessSeesAReset(t *testing.T) {
	b := newBench(t)
	b.reset(200)
	old := b.tables()
	other := *b
	other.start()
	for load := int64(300); load < 310; load++ { // at once, without a pause between
		other.reset(load)
		if got := b.tables(); len(got.Users) != int(load) {
			t.Fatalf("load %d: %d users", load, len(got.Users))
		}
	}
	last := b.do(b.cad, asks(10000+308, 0, "/file_set/dir00000/class0_0"))
	if last.cookie == "" || last.cookie == "found_cookie=Ad_id=-1&Ad_weight=0&Expired=1" {
		t.Errorf("the newest user is unknown; there were %d, now %d", len(old.Users), 309)
	}
	if err := os.WriteFile(filepath.Join(b.dir, web99.PersonalityName), []byte("broken"), 0o644); err != nil {
		t.Fatal(err)
	}
	wantError(t, b.do(b.cad, asks(10000, 0, "/file_set/dir00000/class0_0")), "whole records")
	if err := os.Remove(filepath.Join(b.dir, web99.PersonalityName)); err != nil {
		t.Fatal(err)
	}
	wantError(t, b.do(b.cad, asks(10000, 0, "/file_set/dir00000/class0_0")), "no such file or directory")
}

// What happens to the file itself is seen at once; another folder in the place of the one that holds it is
// seen in the next second.
func TestTablesThatAreMoved(t *testing.T) {
	b := newBench(t)
	b.reset(200)
	clock := int64(now)
	b.ctx.Now = func() time.Time { return time.Unix(clock, 0) }
	users := func() int { b.t.Helper(); return len(b.tables().Users) }
	name := filepath.Join(b.dir, web99.PersonalityName)
	one, err := os.ReadFile(name)
	if err != nil || users() != 200 {
		t.Fatal(err, users())
	}
	swap := func(from, to string) {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}

	swap(name, name+".away")
	wantError(t, b.do(b.get, query("/"+web99.PersonalityName)), "no such file or directory")
	if err := os.WriteFile(name, one[:len(one)/2], 0o644); err != nil {
		t.Fatal(err)
	}
	if n := users(); n != 100 {
		t.Errorf("%d users in the file that took the place of the one moved away, want 100", n)
	}

	swap(b.dir, b.dir+".away")
	if err := os.CopyFS(b.dir, os.DirFS(b.dir+".away")); err != nil {
		t.Fatal(err)
	}
	swap(name+".away", name)
	clock++
	if n := users(); n != 200 {
		t.Errorf("%d users in the folder of the next second, want 200", n)
	}
}

func TestPostAndFetch(t *testing.T) {
	b := newBench(t)
	b.reset(200)
	for i := range 3 {
		a := b.do(b.post, posts(10000+i, goodPost))
		if a.cookie != fmt.Sprintf("my_cookie=%d", 10000+i) || a.content != content(1, 1020) {
			t.Errorf("POST %d: %q, %d bytes", i, a.cookie, len(a.content))
		}
	}
	want := "         3\n"
	for i := range int64(3) {
		r, _ := web99.AppendRecord(nil, &web99.Record{Number: i + 1, Time: now, Pid: 4321, Class: 1, Client: 10018, File: []byte("/file_set/dir00000/class1_0"), Thread: 4321, User: 10000 + i})
		want += string(r)
	}
	if got := b.do(b.comm, query("command/Fetch")); got.content != want || got.cookie != "" {
		t.Errorf("got\n%s\nwant\n%s", got.content, want)
	}
	if got, err := os.ReadFile(filepath.Join(b.dir, web99.PostLogName)); err != nil || string(got) != want {
		t.Errorf("on disk: %q, %v", got, err)
	}
	b.reset(200)
	if got := b.do(b.comm, query("command/Fetch")); got.content != "         0\n" {
		t.Errorf("after Reset: %q", got.content)
	}
}

func TestPostErrorsLeaveNoRecord(t *testing.T) {
	b := newBench(t)
	b.reset(200)
	wantError(t, b.do(b.post, posts(10000, "")), "empty POST")
	wantError(t, b.do(b.post, posts(10000, goodPost+"&")), "malformed POST body")
	wantError(t, b.do(b.post, posts(10000, strings.Replace(goodPost, "00000", "00001", 1))), "no such file")
	rq := posts(10000, goodPost)
	rq.Cookie = nil
	wantError(t, b.do(b.post, rq), "no cookie")
	rq = posts(10000, goodPost)
	rq.Method = []byte("GET")
	wantError(t, b.do(b.post, rq), "only POST")
	b.ctx.Pid = 1 << 40
	wantError(t, b.do(b.post, posts(10000, goodPost)), "does not fit")
	if got := b.do(b.comm, query("command/Fetch")); got.content != "         0\n" {
		t.Errorf("log: %q", got.content)
	}
}

func TestCommandErrors(t *testing.T) {
	b := newBench(t)
	for _, q := range []string{"", "/file_set/dir00000/class0_0", "command/Reset", "command/Stop", "command/Reset&maxload=5&pttime=1&maxthread=1&exp=1&urlroot=/"} {
		wantError(t, b.do(b.comm, query("%s", q)), "unknown or malformed command")
	}
	wantError(t, b.do(b.comm, query("command/Reset&maxload=5&pttime=1&maxthread=1&exp=1,99999999&urlroot=/")), "out of range")
	rq := query("command/Fetch")
	rq.Method = []byte("POST")
	wantError(t, b.do(b.comm, rq), "only GET")
	if d, ok := b.comm.(page.Detacher); !ok || !d.Detached(&rq) {
		t.Error("commands are not detached")
	}
}

func TestFetchWithoutALogMakesAnEmptyOne(t *testing.T) {
	b := newBench(t)
	if got := b.do(b.comm, query("command/Fetch")); got.content != "         0\n" {
		t.Errorf("%q", got.content)
	}
}

func TestSiteRefusesTwoDirectories(t *testing.T) {
	b := newBench(t)
	ctx := *b.ctx
	ctx.Dir = t.TempDir()
	if err := b.site.Get().Open(&ctx); err == nil {
		t.Error("opened")
	}
	ctx.Files = nil
	if err := b.site.Get().Open(&ctx); err == nil {
		t.Error("opened without files")
	}
}

// held is a Files that hands out one file in memory without allocating.
type held struct{ f page.File }

func (h *held) Open([]byte) (page.File, error) { return h.f, nil }

func TestServingDoesNotAllocate(t *testing.T) {
	b := newBench(t)
	b.reset(5000)
	text := []byte(content(2, 10240))
	b.ctx.Files = &held{page.File{Bytes: text, Size: int64(len(text))}}
	b.ctx.Now = nil
	var rs page.Response
	cadRequest, postRequest := asks(10007, 3, "/file_set/dir00000/class2_0"), posts(10007, goodPost)
	getRequest, tableRequest := query("/file_set/dir00000/class2_0"), query("/User.Personality")
	for _, c := range []struct {
		name string
		page page.Page
		rq   *page.Request
	}{{"GET", b.get, &getRequest}, {"table", b.get, &tableRequest}, {"CAD", b.cad, &cadRequest}, {"POST", b.post, &postRequest}} {
		if c.rq.Method == nil {
			c.rq.Method = []byte("GET")
		}
		c.rq.Script, c.rq.Remote = []byte("/s"), netip.MustParseAddr("192.0.2.7")
		var failed bool
		serve := func() {
			rs.Reset()
			c.page.Serve(c.rq, &rs)
			failed = failed || bytes.Contains(rs.View().Fields, []byte("-1"))
		}
		serve()
		if n := testing.AllocsPerRun(100, serve); n != 0 || failed {
			t.Errorf("%s: %v allocations, failed: %v", c.name, n, failed)
		}
	}
}

func BenchmarkPages(bb *testing.B) {
	b := newBench(bb)
	b.reset(5000)
	text := []byte(content(2, 10240))
	b.ctx.Files = &held{page.File{Bytes: text, Size: int64(len(text))}}
	cadRequest, postRequest, getRequest := asks(10007, 3, "/file_set/dir00000/class2_0"), posts(10007, goodPost), query("/file_set/dir00000/class2_0")
	for _, c := range []struct {
		name string
		page page.Page
		rq   *page.Request
	}{{"GET", b.get, &getRequest}, {"CAD", b.cad, &cadRequest}, {"POST", b.post, &postRequest}} {
		if c.rq.Method == nil {
			c.rq.Method = []byte("GET")
		}
		bb.Run(c.name, func(bb *testing.B) {
			var rs page.Response
			bb.ReportAllocs()
			for bb.Loop() {
				rs.Reset()
				c.page.Serve(c.rq, &rs)
			}
		})
	}
}
