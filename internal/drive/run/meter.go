package run

import (
	"os"

	"tidemark.dev/internal/engine/sysinfo"
	"tidemark.dev/internal/ground/fault"
)

// system is what a driver process used and met over one window.
type system struct {
	UserSeconds      float64 `json:"user_seconds"`
	SystemSeconds    float64 `json:"system_seconds"`
	Cores            float64 `json:"busy_cores"`
	PeakBytes        int64   `json:"peak_resident_bytes"`
	RunQueue         float64 `json:"run_queue_share"` // of the unluckiest thread
	Steal            float64 `json:"steal_share"`
	MemoryPressure   uint64  `json:"memory_pressure_count"`
	TimeWaitOverflow uint64  `json:"time_wait_overflow_count"`
}

// sample is a moment between which system is measured.
type sample struct {
	tree sysinfo.Tree
	tcp  sysinfo.TCP
	time sysinfo.Time
}

func takeSample() (s sample, err error) {
	root := sysinfo.Live()
	if s.tree, err = sysinfo.ReadTree(root, os.Getpid()); err == nil {
		if s.tcp, err = sysinfo.ReadTCP(root); err == nil {
			s.time, err = sysinfo.ReadTime(root)
		}
	}
	return s, fault.Wrap(fault.Driver, err, "counters")
}

func (s sample) since(before sample) system {
	u, tcp := s.tree.Since(before.tree), s.tcp.Since(before.tcp)
	return system{
		UserSeconds: u.User.Seconds(), SystemSeconds: u.System.Seconds(), Cores: u.Cores(), PeakBytes: u.PeakBytes,
		RunQueue: u.WorstRunQueueShare(), Steal: s.time.Since(before.time).StealShare(),
		MemoryPressure: tcp.Pressures, TimeWaitOverflow: tcp.TimeWaitOverflow,
	}
}
