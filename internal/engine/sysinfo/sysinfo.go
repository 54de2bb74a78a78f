// Package sysinfo reads the facts of a host that a disclosure needs, and the counters
// that an instrument audits itself with.
//
// [Read] collects what does not change during a run into a [Host]; [Host.Facts] lists
// it for people and documents. Around a measured window take [ReadTCP], [ReadTime] and
// [ReadTree] twice and subtract: kernel counters, the host's processor time with
// steal, and the processor time and run-queue delay of a process tree.
//
// All of it comes from the text files of /proc and /sys below a root: [Live] on a
// running Linux host, a fixture in tests. It changes no setting, judges nothing and
// identifies nobody: no serial numbers, no hardware or network addresses.
package sysinfo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Host is what there is to say about a machine before a run. What cannot be found out
// is left at its zero value.
type Host struct {
	Name         string            `json:"name"`
	Kernel       Kernel            `json:"kernel"`
	Distribution string            `json:"distribution,omitempty"`
	Machine      Machine           `json:"machine"`
	Processor    Processor         `json:"processor"`
	Memory       Memory            `json:"memory"`
	Cgroup       Cgroup            `json:"cgroup"`
	Limits       Limits            `json:"limits"`
	Interfaces   []Interface       `json:"interfaces"`
	Sysctls      map[string]string `json:"sysctls"`               // by the kernel's names, in its units
	Mitigations  map[string]string `json:"mitigations,omitempty"` // by the kernel's name of the weakness
	Unreadable   []string          `json:"unreadable,omitempty"`  // files that are there but may not be read
}

// Kernel is the operating system.
type Kernel struct {
	Release      string `json:"release"`           // 6.12.5
	Build        string `json:"build,omitempty"`   // number, options and date
	Architecture string `json:"architecture"`      // as uname -m
	Options      string `json:"options,omitempty"` // of the boot command line, those that change speed
	ClockSource  string `json:"clock_source,omitempty"`
}

// Machine is what the kernel runs on.
type Machine struct {
	Maker     string `json:"maker,omitempty"`   // as the firmware says
	Product   string `json:"product,omitempty"` // of the machine, or of the hypervisor
	Virtual   bool   `json:"virtual"`           // the processor reports a hypervisor
	Container string `json:"container,omitempty"`
}

// Memory is the host's memory.
type Memory struct {
	TotalBytes          int64  `json:"total_bytes"`
	AvailableBytes      int64  `json:"available_bytes"` // when it was read
	SwapBytes           int64  `json:"swap_bytes"`
	HugePages           int64  `json:"huge_pages_count"`
	HugePageBytes       int64  `json:"huge_page_bytes,omitempty"`
	TransparentHugePage string `json:"transparent_hugepages,omitempty"` // always, madvise or never
}

// Cgroup is what a control group leaves of the host to this process. Zero: no limit.
type Cgroup struct {
	Version     int     `json:"version,omitempty"` // 1 or 2
	QuotaCores  float64 `json:"quota_cores,omitempty"`
	MemoryBytes int64   `json:"memory_limit_bytes,omitempty"`
}

// Unlimited is the value of a limit that is none.
const Unlimited = -1

// Limits are the resource limits of this process: soft now, hard at most.
type Limits struct {
	OpenFiles       int64 `json:"open_files_count"`
	OpenFilesHard   int64 `json:"open_files_hard_count"`
	Processes       int64 `json:"processes_count"`
	LockedBytes     int64 `json:"locked_memory_bytes"`
	LockedBytesHard int64 `json:"locked_memory_hard_bytes"`
}

// Live returns the root of the running host.
func Live() fs.FS { return os.DirFS("/") }

// Read collects the facts of the host whose /proc and /sys stand below root. Without
// /proc there are none: the error then says that it needs Linux.
func Read(root fs.FS) (*Host, error) {
	f := &files{root: root}
	info, ok := f.text("proc/cpuinfo")
	if !ok {
		return nil, errors.New("host facts: needs Linux with /proc")
	}
	h := &Host{
		Name: f.word("proc/sys/kernel/hostname"),
		Kernel: Kernel{
			Release:      f.word("proc/sys/kernel/osrelease"),
			Build:        f.word("proc/sys/kernel/version"),
			Architecture: f.word("proc/sys/kernel/arch"),
			Options:      f.options(),
			ClockSource:  f.word("sys/devices/system/clocksource/clocksource0/current_clocksource"),
		},
		Distribution: f.distribution(),
		Machine:      f.machine(info),
		Processor:    f.processor(info),
		Memory:       f.memory(),
		Cgroup:       f.cgroup(),
		Limits:       f.limits(),
		Interfaces:   f.interfaces(),
		Sysctls:      f.sysctls(),
		Mitigations:  f.mitigations(),
	}
	h.Unreadable = f.refused
	return h, nil
}

// UsableMemory is how much memory this process may use, in bytes: the host's, or what its control groups leave it of
// that. 0 if neither says.
func UsableMemory(root fs.FS) int64 {
	f := &files{root: root}
	all, limit := f.memory().TotalBytes, f.cgroup().MemoryBytes
	if limit > 0 && (all == 0 || limit < all) {
		return limit
	}
	return all
}

// files reads below a root and remembers what refused.
type files struct {
	root    fs.FS
	refused []string
}

// text returns the content of a file. A missing file is a fact of its own and no
// error; one that may not be read is noted.
func (f *files) text(path string) (string, bool) {
	b, err := fs.ReadFile(f.root, path)
	if errors.Is(err, fs.ErrPermission) {
		f.refused = append(f.refused, "/"+path)
	}
	return string(b), err == nil
}

// word returns the content with white space reduced to single spaces, "" if there is none.
func (f *files) word(path string) string {
	s, _ := f.text(path)
	return strings.Join(strings.Fields(s), " ")
}

// number returns a decimal content, 0 if there is none.
func (f *files) number(path string) int64 {
	n, _ := strconv.ParseInt(f.word(path), 10, 64)
	return n
}

// names lists a directory in order, nothing if there is none.
func (f *files) names(path string) []string {
	list, _ := fs.ReadDir(f.root, path)
	names := make([]string, len(list))
	for i, e := range list {
		names[i] = e.Name()
	}
	return names
}

func (f *files) exists(path string) bool {
	_, err := fs.Stat(f.root, path)
	return err == nil
}

// chosen returns the word in brackets of a list like "always [madvise] never".
func chosen(s string) string {
	if _, s, ok := strings.Cut(s, "["); ok {
		s, _, _ = strings.Cut(s, "]")
		return s
	}
	return s
}

// fields reads lines "name: value" or "name   : value" into a map; of equal names the
// first counts.
func fields(text string) map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(line, ":")
		name = strings.TrimSpace(name)
		if _, old := m[name]; ok && !old {
			m[name] = strings.TrimSpace(value)
		}
	}
	return m
}

// kilobytes reads a value like "16384 kB" as bytes.
func kilobytes(s string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSuffix(s, " kB"), 10, 64)
	return n << 10
}

// tuning are the boot options that change how fast a host is. The rest of a command
// line is nobody's business: it may name disks, hosts and tokens.
const tuning = ` amd_pstate clocksource cgroup_disable default_hugepagesz hugepages hugepagesz idle intel_idle.max_cstate
 intel_pstate irqaffinity isolcpus kpti l1tf maxcpus mds mem mitigations noibrs noht nohz nohz_full nopti nosmt
 nospec_store_bypass_disable nospectre_v1 nospectre_v2 nr_cpus numa numa_balancing preempt processor.max_cstate psi
 pti rcu_nocbs retbleed skew_tick smt spec_store_bypass_disable spectre_v2 srbds thash_entries threadirqs
 transparent_hugepage tsc tsx tsx_async_abort `

func (f *files) options() string {
	var kept []string
	for _, o := range strings.Fields(f.word("proc/cmdline")) {
		name, _, _ := strings.Cut(o, "=")
		if slices.Contains(strings.Fields(tuning), name) {
			kept = append(kept, o)
		}
	}
	return strings.Join(kept, " ")
}

func (f *files) distribution() string {
	s, ok := f.text("etc/os-release")
	if !ok {
		s, _ = f.text("usr/lib/os-release")
	}
	for line := range strings.Lines(s) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
			return strings.Trim(v, `"'`)
		}
	}
	return ""
}

func (f *files) machine(cpuinfo string) Machine {
	m := Machine{
		Maker:   f.word("sys/class/dmi/id/sys_vendor"),
		Product: f.word("sys/class/dmi/id/product_name"),
	}
	if m.Product == "" {
		m.Product = strings.TrimRight(f.word("sys/firmware/devicetree/base/model"), "\x00")
	}
	m.Virtual = strings.Contains(" "+fields(cpuinfo)["flags"]+" ", " hypervisor ") || f.exists("sys/hypervisor/type")
	switch {
	case f.exists("run/.containerenv"):
		m.Container = "podman"
	case f.exists(".dockerenv"):
		m.Container = "docker"
	case f.exists("run/systemd/container"):
		m.Container = f.word("run/systemd/container")
	case f.exists("var/run/secrets/kubernetes.io"):
		m.Container = "kubernetes"
	}
	return m
}

func (f *files) memory() Memory {
	s, _ := f.text("proc/meminfo")
	m := fields(s)
	pages, _ := strconv.ParseInt(m["HugePages_Total"], 10, 64)
	return Memory{
		TotalBytes:          kilobytes(m["MemTotal"]),
		AvailableBytes:      kilobytes(m["MemAvailable"]),
		SwapBytes:           kilobytes(m["SwapTotal"]),
		HugePages:           pages,
		HugePageBytes:       kilobytes(m["Hugepagesize"]),
		TransparentHugePage: chosen(f.word("sys/kernel/mm/transparent_hugepage/enabled")),
	}
}

func (f *files) limits() Limits {
	s, _ := f.text("proc/self/limits")
	var l Limits
	for line := range strings.Lines(s) {
		for name, to := range map[string][2]*int64{
			"Max open files":    {&l.OpenFiles, &l.OpenFilesHard},
			"Max processes":     {&l.Processes, nil},
			"Max locked memory": {&l.LockedBytes, &l.LockedBytesHard},
		} {
			rest, ok := strings.CutPrefix(line, name)
			w := strings.Fields(rest)
			if !ok || len(w) < 2 {
				continue
			}
			for i, p := range to {
				if p == nil {
					continue
				}
				if w[i] == "unlimited" {
					*p = Unlimited
				} else {
					*p, _ = strconv.ParseInt(w[i], 10, 64)
				}
			}
		}
	}
	return l
}

func (f *files) mitigations() map[string]string {
	const dir = "sys/devices/system/cpu/vulnerabilities"
	m := map[string]string{}
	for _, name := range f.names(dir) {
		if s := f.word(dir + "/" + name); s != "" {
			m[name] = s
		}
	}
	return m
}

// missing names a file that a counter cannot do without.
func missing(path string, err error) error { return fmt.Errorf("read /%s: %w", path, err) }
