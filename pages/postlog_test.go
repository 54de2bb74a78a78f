package pages

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"tidemark.dev/internal/model/web99"
)

// TestMain turns the test binary into an appender when asked to: arguments -appender, directory, first
// user, number of posts.
func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == "-appender" {
		os.Exit(appender(os.Args[2], os.Args[3], os.Args[4]))
	}
	os.Exit(m.Run())
}

// appender says it is ready, waits for its standard input to close, and appends from two goroutines.
func appender(dir, first, count string) int {
	var user, n int64
	fmt.Sscan(first, &user)
	fmt.Sscan(count, &n)
	log := newPostLog(dir)
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	var wg sync.WaitGroup
	failed := make(chan error, 3)
	for half := range int64(2) {
		wg.Go(func() {
			for i := half; i < n; i += 2 {
				if err := log.append(&web99.Record{Time: now, Pid: int64(os.Getpid()), User: user + i, File: []byte("/f")}); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	wg.Wait()
	if err := log.close(); err != nil {
		failed <- err
	}
	select {
	case err := <-failed:
		fmt.Println(err)
		return 1
	default:
		return 0
	}
}

func needsLinux(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the post log needs Linux")
	}
}

func TestAppendsOfManyProcessesAreAllThereOnce(t *testing.T) {
	needsLinux(t)
	dir := t.TempDir()
	const processes, each = 4, 250
	var starts []io.Closer
	var running []*exec.Cmd
	for p := range processes {
		cmd := exec.Command(os.Args[0], "-appender", dir, fmt.Sprint(p*each), fmt.Sprint(each))
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
			t.Fatal(line, err)
		}
		starts, running = append(starts, in), append(running, cmd)
	}
	for _, in := range starts {
		in.Close()
	}
	for _, cmd := range running {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, web99.PostLogName))
	if err != nil {
		t.Fatal(err)
	}
	if n, rest := web99.LogCount(int64(len(b))); n != processes*each || rest != 0 {
		t.Fatalf("%d records and %d bytes, want %d", n, rest, processes*each)
	}
	if n, ok := web99.ParseCount(b); !ok || n != processes*each {
		t.Errorf("count line says %d", n)
	}
	users, pids := map[int64]int{}, map[int64]int{}
	last := int64(0)
	for rest := b[web99.CountSize:]; len(rest) > 0; rest = rest[web99.RecordSize:] {
		var r web99.Record
		if !web99.ParseRecord(rest[:web99.RecordSize], &r) || r.Number != last+1 {
			t.Fatalf("after record %d: %q", last, rest[:web99.RecordSize])
		}
		last = r.Number
		users[r.User]++
		pids[r.Pid]++
	}
	for u := range int64(processes * each) {
		if users[u] != 1 {
			t.Errorf("user %d: %d records", u, users[u])
		}
	}
	for pid, n := range pids {
		if n != each {
			t.Errorf("process %d: %d records", pid, n)
		}
	}
}

func logText(t *testing.T, users ...int64) string {
	t.Helper()
	b, _ := web99.AppendCount(nil, int64(len(users)))
	for i, u := range users {
		b, _ = web99.AppendRecord(b, &web99.Record{Number: int64(i + 1), Time: now, User: u, File: []byte("/f")})
	}
	return string(b)
}

func TestDamagedLogsAreMended(t *testing.T) {
	needsLinux(t)
	two := logText(t, 1, 2)
	for name, c := range map[string]struct{ before, after string }{
		"absent":                 {"", logText(t, 9)},
		"empty":                  {"", logText(t, 9)},
		"short count line":       {"     ", logText(t, 9)},
		"torn record":            {two + "         3 17000", logText(t, 1, 2, 9)},
		"record without newline": {two[:len(two)-1], logText(t, 1, 9)},
		"count one behind":       {strings.Replace(two, "         2\n", "         1\n", 1), logText(t, 1, 2, 9)},
		"count is garbage":       {"xxxxxxxxxxx" + two[11:], logText(t, 1, 2, 9)},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, web99.PostLogName)
		if name != "absent" {
			if err := os.WriteFile(path, []byte(c.before), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		l := newPostLog(dir)
		if err := l.append(&web99.Record{Time: now, User: 9, File: []byte("/f")}); err != nil {
			t.Fatal(name, err)
		}
		if got, _ := os.ReadFile(path); len(got) != len(c.after) || string(got[web99.CountSize:]) != c.after[web99.CountSize:] {
			t.Errorf("%s: got\n%swant\n%s", name, got, c.after)
		}
		if err := l.close(); err != nil {
			t.Error(err)
		}
		if got, _ := os.ReadFile(path); string(got) != c.after {
			t.Errorf("%s: got in the end\n%swant\n%s", name, got, c.after)
		}
	}
}

func TestFetchMendsToo(t *testing.T) {
	needsLinux(t)
	dir := t.TempDir()
	path := filepath.Join(dir, web99.PostLogName)
	two := logText(t, 1, 2)
	if err := os.WriteFile(path, []byte(strings.Replace(two, " 2\n", " 1\n", 1)+"torn"), 0o644); err != nil {
		t.Fatal(err)
	}
	l := newPostLog(dir)
	f, n, err := l.fetch()
	if err != nil || n != 2 {
		t.Fatal(n, err)
	}
	defer f.Release()
	if err := l.append(&web99.Record{User: 9, File: []byte("/f")}); err != nil {
		t.Fatal(err)
	}
	if got, err := f.AppendTo(nil); err != nil || string(got) != two[web99.CountSize:] {
		t.Errorf("%q, %v", got, err)
	}
	if got, _ := os.ReadFile(path); !bytes.HasPrefix(got, []byte("         2\n")) || len(got) != 11+3*139 {
		t.Errorf("%q", got)
	}
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(path); !bytes.HasPrefix(got, []byte("         3\n")) || len(got) != 11+3*139 {
		t.Errorf("%q", got)
	}
}

func TestAReplacedLogIsNoticed(t *testing.T) {
	needsLinux(t)
	dir := t.TempDir()
	path := filepath.Join(dir, web99.PostLogName)
	l := newPostLog(dir)
	add := func(user int64) {
		t.Helper()
		if err := l.append(&web99.Record{Time: now, User: user, File: []byte("/f")}); err != nil {
			t.Fatal(err)
		}
	}
	add(1)
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	add(2)
	if err := os.WriteFile(path+".new", []byte(logText(t, 5)), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	add(3)
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
	moved := strings.Replace(logText(t, 1), "         1\n", "         0\n", 1) // its count line lags behind
	for name, want := range map[string]string{path + ".old": moved, path: logText(t, 5, 3)} {
		if got, _ := os.ReadFile(name); string(got) != want {
			t.Errorf("%s: got\n%swant\n%s", name, got, want)
		}
	}
}

func TestAnUnwritableLogIsAnError(t *testing.T) {
	needsLinux(t)
	l := newPostLog(filepath.Join(t.TempDir(), "none"))
	if err := l.append(&web99.Record{File: []byte("/f")}); err == nil {
		t.Error("appended")
	}
	if _, _, err := l.fetch(); err == nil {
		t.Error("fetched")
	}
	if err := l.close(); err != nil {
		t.Error(err)
	}
}

func BenchmarkAppend(b *testing.B) {
	l := newPostLog(b.TempDir())
	defer l.close()
	r := web99.Record{Time: now, User: 10018, File: []byte("/file_set/dir00012/class1_3")}
	b.ReportAllocs()
	for b.Loop() {
		if err := l.append(&r); err != nil {
			b.Fatal(err)
		}
	}
}
