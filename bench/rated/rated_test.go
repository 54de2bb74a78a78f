package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestSeek(t *testing.T) {
	for name, c := range map[string]struct {
		at, limit, high int // first load, largest that is valid, largest allowed
		width           float64
		asked           []int
		found           int
		open            bool
	}{
		"up":          {1000, 1300, 5000, 0.05, []int{1000, 1250, 1560, 1400, 1320, 1280}, 1280, false},
		"down":        {1000, 500, 5000, 0.5, []int{1000, 800, 640, 510, 400}, 400, false},
		"up to cap":   {4500, 9000, 5000, 0.05, []int{4500, 5000}, 5000, true},
		"none":        {100, 0, 5000, 0.05, []int{100, 80, 60, 50}, 0, false},
		"cap at once": {5000, 9000, 5000, 0.05, []int{5000}, 5000, true},
	} {
		s := seek{low: 50, high: c.high, at: c.at, factor: 1.25, width: c.width}
		var asked []int
		for load, more := s.next(); more && len(asked) < 20; load, more = s.next() {
			asked = append(asked, load)
			s.add(load, load <= c.limit)
		}
		if diff := cmp.Diff(c.asked, asked); diff != "" || s.yes != c.found || (s.no == 0) != c.open {
			t.Errorf("%s: found %d, no at %d: %s", name, s.yes, s.no, diff)
		}
	}
}

func TestRatios(t *testing.T) {
	d := &duel{Runs: []bout{
		{Figure: 10}, {Figure: 6}, {Figure: 14}, // 0.5 of 12
		{Figure: 7, Marked: "late"}, {Figure: 14}, // 0.5 of 14, marked
		{Figure: 7}, {Figure: 0}, // a reference that gave nothing
	}}
	d.ratios()
	if diff := cmp.Diff([][]float64{{0.5}, {0.5}}, [][]float64{d.Ratios, d.Marked}, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Error(diff)
	}
}

func TestGroup(t *testing.T) {
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for kind, c := range map[string]struct{ there, text, file, want string }{
		"cgroup v2": {"cgroup.controllers", "cpuset cpu io\n", "mine/cpu.max", "1500 5000"},
		"cgroup v1": {"cpu/cpu.cfs_quota_us", "-1\n", "cpu/mine/cpu.cfs_quota_us", "1500"},
	} {
		mount := t.TempDir()
		write(filepath.Join(mount, c.there), c.text)
		g, err := newGroup(mount, "mine", 5*time.Millisecond, 1500*time.Microsecond)
		if err != nil || g.kind != kind {
			t.Fatalf("%s: %+v, %v", kind, g, err)
		}
		if b, err := os.ReadFile(filepath.Join(mount, c.file)); err != nil || string(b) != c.want {
			t.Errorf("%s: %q, %v", kind, b, err)
		}
		write(filepath.Join(g.dir, "cpu.stat"), "nr_periods 7\nnr_throttled 3\nthrottled_time 99\n")
		if diff := cmp.Diff(map[string]int64{"nr_periods": 7, "nr_throttled": 3}, g.stat()); diff != "" {
			t.Errorf("%s: %s", kind, diff)
		}
	}
	mount := t.TempDir()
	write(filepath.Join(mount, "unified", "cgroup.controllers"), "cpuset hugetlb\n")
	if g, err := newGroup(mount, "mine", time.Second, time.Second); err == nil {
		t.Errorf("without the processor: %+v", g)
	}
}
