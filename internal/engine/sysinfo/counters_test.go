package sysinfo

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidemark.dev/internal/ground/clock"
)

// dir makes a file system of paths and contents.
func dir(pairs ...string) fstest.MapFS {
	m := fstest.MapFS{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
	}
	return m
}

const (
	snmp = `Ip: Forwarding DefaultTTL
Ip: 2 64
Tcp: RtoAlgorithm MaxConn ActiveOpens PassiveOpens AttemptFails EstabResets CurrEstab InSegs OutSegs RetransSegs
Tcp: 1 -1 541 518 3 2 2 26540 23139 566
`
	netstat = `TcpExt: SyncookiesSent TW TWRecycled ListenOverflows ListenDrops TCPTimeouts TCPAbortOnMemory TCPMemoryPressures TCPMemoryPressuresChrono TCPTimeWaitOverflow RcvPruned TCPRcvCollapsed TCPBacklogDrop TCPReqQFullDrop
TcpExt: 1 2 3 4 5 6 7 8 9 10 11 12 13 14
IpExt: InOctets
IpExt: 458093575
`
	sockstat = `sockets: used 19
TCP: inuse 4 orphan 1 tw 7 alloc 5 mem 198
UDP: inuse 0 mem 3
`
)

func host(snmp, netstat, sockstat string) fstest.MapFS {
	return dir("proc/net/snmp", snmp, "proc/net/netstat", netstat, "proc/net/sockstat", sockstat)
}

func TestTCPCounters(t *testing.T) {
	got, err := ReadTCP(host(snmp, netstat, sockstat))
	if err != nil {
		t.Fatal(err)
	}
	want := TCP{
		ActiveOpens: 541, PassiveOpens: 518, AttemptFails: 3, EstabResets: 2, InSegments: 26540, OutSegments: 23139, Retransmits: 566,
		SynCookies: 1, TimeWaits: 2, TimeWaitsReused: 3, ListenOverflows: 4, ListenDrops: 5, Timeouts: 6, MemoryAborts: 7,
		Pressures: 8, PressureMilliseconds: 9, TimeWaitOverflow: 10, Pruned: 11, Collapsed: 12, BacklogDrops: 13, RequestDrops: 14,
		InUse: 4, Orphans: 1, TimeWait: 7, MemoryPages: 198,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for v, i := reflect.ValueOf(got), 0; i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Errorf("%s is not read", v.Type().Field(i).Name)
		}
	}
}

func TestTCPSinceCountsOnlyTheWindow(t *testing.T) {
	before := TCP{ActiveOpens: 10, Pressures: 3, TimeWait: 500}
	now := TCP{ActiveOpens: 25, Pressures: 1, TimeWait: 20}
	want := TCP{ActiveOpens: 15, Pressures: 1, TimeWait: 20} // pressures began anew
	if diff := cmp.Diff(want, now.Since(before)); diff != "" {
		t.Error(diff)
	}
	if now.ActiveOpens != 25 {
		t.Error("Since changed its operand")
	}
}

func TestBrokenCountersAreErrors(t *testing.T) {
	for name, root := range map[string]fstest.MapFS{
		"odd lines":     host("Tcp: A\n", netstat, sockstat),
		"fewer values":  host(snmp, "TcpExt: A B\nTcpExt: 1\n", sockstat),
		"another group": host(snmp, "TcpExt: A\nIpExt: 1\n", sockstat),
		"no sockstat":   dir("proc/net/snmp", snmp, "proc/net/netstat", netstat),
		"no netstat":    dir("proc/net/snmp", snmp, "proc/net/sockstat", sockstat),
		"empty pair":    host("\n\n", netstat, sockstat),
	} {
		if got, err := ReadTCP(root); err == nil || !strings.HasPrefix(err.Error(), "read /proc/net/") {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for name, text := range map[string]string{
		"empty":        "",
		"no total":     "cpu0 1 2 3 4 5 6 7 8 9 0\n",
		"too short":    "cpu 1 2 3\n",
		"not a number": "cpu 1 2 3 4 5 6 7 x 9 0\n",
	} {
		if got, err := ReadTime(dir("proc/stat", text)); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestHostTime(t *testing.T) {
	read := func(s string) Time {
		t.Helper()
		v, err := ReadTime(dir("proc/stat", s+"\ncpu0 9 9 9 9 9 9 9 9 0 0\n"))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	before := read("cpu  100 0 50 1000 7 3 4 10 0 0")
	now := read("cpu  150 10 80 1090 5 3 14 20 5 5")
	want := Time{
		User: 500 * time.Millisecond, Nice: 100 * time.Millisecond, System: 300 * time.Millisecond, Idle: 900 * time.Millisecond,
		Wait: 0 /* it fell */, IRQ: 0, SoftIRQ: 100 * time.Millisecond, Steal: 100 * time.Millisecond,
	}
	d := now.Since(before)
	if diff := cmp.Diff(want, d); diff != "" {
		t.Error(diff)
	}
	if d.Busy() != time.Second || d.Total() != 2*time.Second || d.StealShare() != 0.05 {
		t.Errorf("busy %v of %v, stolen %v", d.Busy(), d.Total(), d.StealShare())
	}
	if (Time{}).StealShare() != 0 {
		t.Error("a share of nothing")
	}
}

// task is the stat line of a process or thread: user, system, children's user and
// system in ticks, and when it was born.
func task(id int, name string, parent int, times [4]int, born int) string {
	return fmt.Sprintf("%d (%s) S %d 8112 8266 0 -1 4194304 102 0 0 0 %d %d %d %d 20 0 1 0 %d 3133440 393 18446744073709551615 0\n",
		id, name, parent, times[0], times[1], times[2], times[3], born)
}

func TestTreeOfProcesses(t *testing.T) {
	now := dir(
		"proc/10/stat", task(10, "tide (mark) S 1", 1, [4]int{100, 50, 20, 10}, 5),
		"proc/10/status", "Name:\ttidemark\nVmHWM:\t    5120 kB\n",
		"proc/10/task/10/stat", task(10, "tidemark", 1, [4]int{60, 20, 0, 0}, 5),
		"proc/10/task/10/schedstat", "800000000 5000000 17\n",
		"proc/10/task/10/children", "20 \n",
		"proc/10/task/11/stat", task(11, "loop", 1, [4]int{40, 30, 0, 0}, 6),
		"proc/10/task/11/schedstat", "700000000 9000000 17\n",
		"proc/10/task/11/children", "",
		"proc/20/stat", task(20, "cgi", 10, [4]int{1, 2, 0, 0}, 9),
		"proc/20/status", "VmHWM:\t    1024 kB\n",
		"proc/20/task/20/stat", task(20, "cgi", 10, [4]int{1, 2, 0, 0}, 9),
		"proc/20/task/20/children", "30 99", // 99 has ended
		"proc/30/stat", task(30, "grandchild", 20, [4]int{4, 0, 0, 0}, 9),
		"proc/30/task/30/stat", task(30, "grandchild", 20, [4]int{4, 0, 0, 0}, 9),
		"proc/30/task/30/schedstat", "bad",
		"proc/30/task/31/stat", "ended while it was read",
		"proc/77/stat", task(77, "other", 1, [4]int{900, 900, 0, 0}, 1),
		"proc/77/task/77/stat", task(77, "other", 1, [4]int{900, 900, 0, 0}, 1),
	)
	got, err := ReadTree(now, 10)
	if err != nil {
		t.Fatal(err)
	}
	got.At = 0
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	want := Tree{Processes: []Process{
		{
			PID: 10, Parent: 1, Name: "tide (mark) S 1", User: ms(1200), System: ms(600), PeakBytes: 5 << 20,
			Threads: []Thread{
				{TID: 10, Name: "tidemark", Born: 5, User: ms(600), System: ms(200), Running: ms(800), RunQueue: ms(5)},
				{TID: 11, Name: "loop", Born: 6, User: ms(400), System: ms(300), Running: ms(700), RunQueue: ms(9)},
			},
		},
		{PID: 20, Parent: 10, Name: "cgi", User: ms(10), System: ms(20), PeakBytes: 1 << 20, Threads: []Thread{{TID: 20, Name: "cgi", Born: 9, User: ms(10), System: ms(20)}}},
		{PID: 30, Parent: 20, Name: "grandchild", User: ms(40), Threads: []Thread{{TID: 30, Name: "grandchild", Born: 9, User: ms(40)}}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}

	// A kernel without lists of children gives the same.
	for name := range now {
		if strings.HasSuffix(name, "/children") {
			delete(now, name)
		}
	}
	searched, err := ReadTree(now, 10)
	if err != nil {
		t.Fatal(err)
	}
	searched.At = 0
	if diff := cmp.Diff(want, searched); diff != "" {
		t.Error(diff)
	}
}

func TestBrokenProcessesAreErrors(t *testing.T) {
	for name, root := range map[string]fstest.MapFS{
		"no name":    dir("proc/1/stat", "1 init S 0"),
		"too short":  dir("proc/1/stat", "1 (init) S 0 1 2"),
		"no number":  dir("proc/1/stat", strings.Replace(task(1, "a", 0, [4]int{}, 7), " 7 ", " x ", 1)),
		"no threads": dir("proc/1/stat", task(1, "a", 0, [4]int{}, 7)),
	} {
		if got, err := ReadTree(root, 1); err == nil || !strings.HasPrefix(err.Error(), "process 1: ") {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestUsageBetweenTwoMoments(t *testing.T) {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	before := Tree{At: 0, Processes: []Process{
		{PID: 1, User: ms(100), System: ms(50), Threads: []Thread{
			{TID: 1, Born: 1, Running: ms(100), RunQueue: ms(10)},
			{TID: 2, Born: 1, Running: ms(40), RunQueue: ms(20)},
			{TID: 3, Born: 1, Running: ms(999), RunQueue: ms(999)}, // will end
		}},
		{PID: 9, User: ms(30), System: ms(5)}, // will end, waited for by 1
	}}
	now := Tree{At: clock.Instant(2 * time.Second), Processes: []Process{
		{PID: 1, User: ms(900), System: ms(350), PeakBytes: 100, Threads: []Thread{
			{TID: 1, Born: 1, Running: ms(400), RunQueue: ms(11)},
			{TID: 2, Born: 1, Running: ms(540), RunQueue: ms(120)},
			{TID: 3, Born: 7, Running: ms(50), RunQueue: ms(30)}, // another one of that number
		}},
		{PID: 10, User: ms(30), PeakBytes: 20, Threads: []Thread{{TID: 10, Born: 8, Running: ms(20), RunQueue: ms(1)}}},
	}}
	u := now.Since(before)
	want := Usage{
		Elapsed: 2 * time.Second, User: ms(800), System: ms(295), Running: ms(300 + 500 + 50 + 20), RunQueue: ms(1 + 100 + 30 + 1),
		WorstRunQueue: ms(100), Processes: 2, Threads: 4, PeakBytes: 120,
	}
	if diff := cmp.Diff(want, u); diff != "" {
		t.Error(diff)
	}
	near := func(name string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-12 {
			t.Errorf("%s %v, want %v", name, got, want)
		}
	}
	near("cores", u.Cores(), 1.095/2)
	near("run-queue share", u.RunQueueShare(), 132.0/(132+870))
	near("worst share", u.WorstRunQueueShare(), 0.05)

	if back := before.Since(now); back.User != 0 || back.System != 0 {
		t.Errorf("time ran back: %+v", back)
	}
	if z := (Usage{}); z.Cores() != 0 || z.RunQueueShare() != 0 || z.WorstRunQueueShare() != 0 {
		t.Error("shares of nothing")
	}
}
