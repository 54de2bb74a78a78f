package sysinfo

import (
	"os"
	"runtime"
	"testing"
	"time"
)

func TestTheLiveHostIsRead(t *testing.T) {
	h, err := Read(Live())
	if err != nil {
		t.Fatal(err)
	}
	if h.Kernel.Release == "" || h.Processor.Threads < 1 || h.Processor.Cores < 1 || h.Memory.TotalBytes < 1<<20 || h.Limits.OpenFiles == 0 {
		t.Errorf("facts are missing: %+v", h)
	}
	if h.Sysctls["net.ipv4.tcp_congestion_control"] == "" {
		t.Error("no congestion control")
	}
	if _, err := ReadTCP(Live()); err != nil {
		t.Error(err)
	}
	if v, err := ReadTime(Live()); err != nil || v.Total() <= 0 {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestOwnProcessorTimeIsSeen(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := ReadTree(Live(), os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for {
		for begin := time.Now(); time.Since(begin) < 5*time.Millisecond; {
		}
		now, err := ReadTree(Live(), os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		u := now.Since(before)
		if u.User+u.System > 0 && u.Running > 0 && u.Elapsed > 0 && u.PeakBytes > 0 {
			return // the test would not end if the time were not seen
		}
		if u.Elapsed > 30*time.Second {
			t.Fatalf("after %v: %+v", u.Elapsed, u)
		}
	}
}
