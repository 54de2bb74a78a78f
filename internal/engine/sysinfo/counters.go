package sysinfo

import (
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// TCP is the kernel's TCP counters of this network namespace since it began, and
// behind them the present state of its sockets. The tags give the kernel's names, in
// /proc/net/snmp and netstat.
type TCP struct {
	// Connections begun here, accepted here, given up in the handshake, reset when open.
	ActiveOpens  uint64 `json:"active_opens_count" kernel:"Tcp.ActiveOpens"`
	PassiveOpens uint64 `json:"passive_opens_count" kernel:"Tcp.PassiveOpens"`
	AttemptFails uint64 `json:"attempt_fails_count" kernel:"Tcp.AttemptFails"`
	EstabResets  uint64 `json:"established_resets_count" kernel:"Tcp.EstabResets"`

	InSegments  uint64 `json:"in_segments_count" kernel:"Tcp.InSegs"`
	OutSegments uint64 `json:"out_segments_count" kernel:"Tcp.OutSegs"`
	Retransmits uint64 `json:"retransmitted_segments_count" kernel:"Tcp.RetransSegs"`
	Timeouts    uint64 `json:"retransmission_timeouts_count" kernel:"TcpExt.TCPTimeouts"`

	// The accept queue was full; SYNs dropped for any reason; the SYN queue was full,
	// answered with a cookie or not at all.
	ListenOverflows uint64 `json:"listen_overflows_count" kernel:"TcpExt.ListenOverflows"`
	ListenDrops     uint64 `json:"listen_drops_count" kernel:"TcpExt.ListenDrops"`
	SynCookies      uint64 `json:"syn_cookies_count" kernel:"TcpExt.SyncookiesSent"`
	RequestDrops    uint64 `json:"request_queue_drops_count" kernel:"TcpExt.TCPReqQFullDrop"`

	// Times the host entered memory pressure (tcp_mem), how long it stayed there, and
	// connections dropped for want of memory.
	Pressures            uint64 `json:"memory_pressures_count" kernel:"TcpExt.TCPMemoryPressures"`
	PressureMilliseconds uint64 `json:"memory_pressure_milliseconds" kernel:"TcpExt.TCPMemoryPressuresChrono"`
	MemoryAborts         uint64 `json:"memory_aborts_count" kernel:"TcpExt.TCPAbortOnMemory"`

	// Received data dropped, or packed tighter, for want of buffer; segments dropped
	// while their socket was busy.
	Pruned       uint64 `json:"pruned_count" kernel:"TcpExt.RcvPruned"`
	Collapsed    uint64 `json:"collapsed_count" kernel:"TcpExt.TCPRcvCollapsed"`
	BacklogDrops uint64 `json:"backlog_drops_count" kernel:"TcpExt.TCPBacklogDrop"`

	// Sockets that passed through TIME_WAIT, that a new connection took over, and that
	// had to leave it out because there were too many (tcp_max_tw_buckets).
	TimeWaits        uint64 `json:"time_waits_count" kernel:"TcpExt.TW"`
	TimeWaitsReused  uint64 `json:"time_waits_recycled_count" kernel:"TcpExt.TWRecycled"`
	TimeWaitOverflow uint64 `json:"time_wait_overflow_count" kernel:"TcpExt.TCPTimeWaitOverflow"`

	// Now. An orphan is closed by its process but not yet by the peer; memory is in the
	// unit of tcp_mem.
	InUse       int64 `json:"sockets_in_use_count"`
	TimeWait    int64 `json:"sockets_time_wait_count"`
	Orphans     int64 `json:"sockets_orphaned_count"`
	MemoryPages int64 `json:"memory_pages"`
}

// ReadTCP reads the TCP counters below root. A counter the kernel does not have is 0.
func ReadTCP(root fs.FS) (TCP, error) {
	counters := map[string]uint64{}
	for _, path := range [...]string{"proc/net/snmp", "proc/net/netstat"} {
		b, err := fs.ReadFile(root, path)
		if err != nil {
			return TCP{}, missing(path, err)
		}
		if err := table(string(b), counters); err != nil {
			return TCP{}, missing(path, err)
		}
	}
	var t TCP
	v := reflect.ValueOf(&t).Elem()
	for i := range v.NumField() {
		if name := v.Type().Field(i).Tag.Get("kernel"); name != "" {
			v.Field(i).SetUint(counters[name])
		}
	}
	const path = "proc/net/sockstat"
	b, err := fs.ReadFile(root, path)
	if err != nil {
		return TCP{}, missing(path, err)
	}
	words := strings.Fields(fields(string(b))["TCP"])
	for i := 0; i+1 < len(words); i += 2 {
		n, _ := strconv.ParseInt(words[i+1], 10, 64)
		switch words[i] {
		case "inuse":
			t.InUse = n
		case "orphan":
			t.Orphans = n
		case "tw":
			t.TimeWait = n
		case "mem":
			t.MemoryPages = n
		}
	}
	return t, nil
}

// Since returns what the counters rose by since before, and the present state of the
// sockets as it is. A counter that fell, in a new network namespace, counts from 0.
func (t TCP) Since(before TCP) TCP {
	v, b := reflect.ValueOf(&t).Elem(), reflect.ValueOf(before)
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("kernel") == "" {
			continue
		}
		if now, old := v.Field(i).Uint(), b.Field(i).Uint(); now >= old {
			v.Field(i).SetUint(now - old)
		}
	}
	return t
}

// table reads pairs of lines, "Group: name name" above "Group: value value". A negative
// value, as MaxConn has, is left out.
func table(text string, to map[string]uint64) error {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines)%2 != 0 {
		return errors.New("lines do not come in pairs")
	}
	for i := 0; i < len(lines); i += 2 {
		names, values := strings.Fields(lines[i]), strings.Fields(lines[i+1])
		if len(names) == 0 || len(names) != len(values) || names[0] != values[0] {
			return fmt.Errorf("line %d: names and values do not match", i+2)
		}
		for k := 1; k < len(names); k++ {
			if n, err := strconv.ParseUint(values[k], 10, 64); err == nil {
				to[strings.TrimSuffix(names[0], ":")+"."+names[k]] = n
			}
		}
	}
	return nil
}

// tick is the unit of processor time in /proc: USER_HZ, which is 100 on every
// architecture Go runs Linux on.
const tick = 10 * time.Millisecond

// Time is the processor time of the whole host since it booted, all threads together.
// Guests are part of User and Nice already.
type Time struct {
	User    time.Duration `json:"user_nanoseconds"`
	Nice    time.Duration `json:"nice_nanoseconds"`
	System  time.Duration `json:"system_nanoseconds"`
	Idle    time.Duration `json:"idle_nanoseconds"`
	Wait    time.Duration `json:"input_output_wait_nanoseconds"` // idle, waiting for a disk
	IRQ     time.Duration `json:"interrupt_nanoseconds"`
	SoftIRQ time.Duration `json:"soft_interrupt_nanoseconds"`
	Steal   time.Duration `json:"steal_nanoseconds"` // wanted to run, but the hypervisor ran others
}

// ReadTime reads the host's processor time below root. Its unit is 10 ms.
func ReadTime(root fs.FS) (Time, error) {
	const path = "proc/stat"
	b, err := fs.ReadFile(root, path)
	if err != nil {
		return Time{}, missing(path, err)
	}
	line, _, _ := strings.Cut(string(b), "\n")
	words := strings.Fields(line)
	var t Time
	to := [...]*time.Duration{&t.User, &t.Nice, &t.System, &t.Idle, &t.Wait, &t.IRQ, &t.SoftIRQ, &t.Steal}
	if len(words) <= len(to) || words[0] != "cpu" {
		return Time{}, missing(path, errors.New("no line of all processors"))
	}
	for i, p := range to {
		n, err := strconv.ParseInt(words[i+1], 10, 64)
		if err != nil {
			return Time{}, missing(path, err)
		}
		*p = time.Duration(n) * tick
	}
	return t, nil
}

// Since returns the time passed since before. The kernel corrects Idle and Wait now
// and then; a part that fell counts as none.
func (t Time) Since(before Time) Time {
	d := func(a, b time.Duration) time.Duration { return max(a-b, 0) }
	return Time{
		d(t.User, before.User), d(t.Nice, before.Nice), d(t.System, before.System), d(t.Idle, before.Idle),
		d(t.Wait, before.Wait), d(t.IRQ, before.IRQ), d(t.SoftIRQ, before.SoftIRQ), d(t.Steal, before.Steal),
	}
}

// Total returns the time of all threads, whatever they did.
func (t Time) Total() time.Duration { return t.Busy() + t.Idle + t.Wait + t.Steal }

// Busy returns the time spent running something.
func (t Time) Busy() time.Duration { return t.User + t.Nice + t.System + t.IRQ + t.SoftIRQ }

// StealShare returns the part of Total that was stolen, 0 to 1.
func (t Time) StealShare() float64 { return share(t.Steal, t.Total()) }

func share(part, whole time.Duration) float64 {
	if whole <= 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
