//go:build e2e && linux

package e2e

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"tidemark.dev/internal/drive/kit"
)

var backend = flag.String("backend", "", "event loop of every server and driver: epoll, io_uring")

// wanted is the event loop that results must name.
func wanted() string {
	if *backend == "" {
		return "epoll"
	}
	return *backend
}

var raceBuild = flag.Bool("product-race", false, "build the program under test with the race detector")

// suite is what the tests share; TestMain makes it and nobody changes it.
var suite struct {
	dir      string // everything lies below it
	tidemark string // the program
	root     string // a file set of 20 directories
}

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := whole(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func whole(m *testing.M) (code int, err error) {
	if suite.dir, err = os.MkdirTemp("", "tidemark-e2e-"); err != nil {
		return 0, err
	}
	defer os.RemoveAll(suite.dir)
	for _, e := range os.Environ() {
		if name, _, _ := strings.Cut(e, "="); strings.HasPrefix(name, "TIDEMARK_") {
			os.Unsetenv(name) // would be taken for flags
		}
	}
	if *backend != "" {
		os.Setenv("TIDEMARK_BACKEND", *backend)
	}
	defer group("self", niceOfGroup())
	preferred()
	bin := filepath.Join(suite.dir, "bin")
	suite.tidemark, suite.root = filepath.Join(bin, "tidemark"), filepath.Join(suite.dir, "root")
	builds := [][]string{{"build", "-o", bin + "/", "tidemark.dev/cmd/tidemark"}, append(kit.CGIBuild(), "-o", bin+"/", "tidemark.dev/cmd/tidemark-cgi")}
	if *raceBuild {
		builds = [][]string{{"build", "-race", "-o", bin + "/", "tidemark.dev/cmd/tidemark", "tidemark.dev/cmd/tidemark-cgi"}}
	}
	for _, args := range builds {
		if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
			return 0, fmt.Errorf("build: %v\n%s", err, out)
		}
	}
	create := exec.Command(suite.tidemark, "fileset", "create", "--quiet", "--dirs", "20", suite.root)
	if out, err := create.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("file set: %v\n%s", err, out)
	}
	code = m.Run()
	for _, p := range processes() {
		if p.exe == suite.tidemark {
			code, err = 1, fmt.Errorf("left behind: %v", p)
			_ = unix.Kill(p.pid, unix.SIGKILL)
		}
	}
	return code, err
}

// preferred asks for processor time before others, where that is allowed: who builds or tests beside this suite
// makes drivers late, and a late driver is what one test is about and all others are not. Children inherit it.
func preferred() {
	threads, _ := filepath.Glob("/proc/self/task/*")
	for _, t := range threads {
		if tid, err := strconv.Atoi(filepath.Base(t)); err == nil {
			_ = unix.Setpriority(unix.PRIO_PROCESS, tid, -10)
		}
	}
	group("self", -10)
}

// niceOfGroup is the priority of this session's scheduling group: other programs of the session want it back.
func niceOfGroup() (nice int) {
	b, _ := os.ReadFile("/proc/self/autogroup")
	_, _ = fmt.Sscanf(string(b), "/autogroup-%d nice %d", new(int), &nice)
	return nice
}

// group sets the priority of a session's scheduling group; where there are none, that of its threads is enough.
func group(pid string, nice int) {
	_ = os.WriteFile("/proc/"+pid+"/autogroup", []byte(strconv.Itoa(nice)), 0)
}
