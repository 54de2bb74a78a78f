package sysinfo

import (
	"cmp"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Processor is all processors of a host together. They are taken to be alike.
type Processor struct {
	Model     string  `json:"model"`
	Maker     string  `json:"maker,omitempty"`
	Sockets   int     `json:"sockets_count"`
	Cores     int     `json:"cores_count"`
	Threads   int     `json:"threads_count"` // that are online
	Nodes     int     `json:"numa_nodes_count,omitempty"`
	Online    string  `json:"online_cpus,omitempty"`  // as a list, 0-3,8
	Allowed   string  `json:"allowed_cpus,omitempty"` // to this process
	Hertz     float64 `json:"frequency_hertz,omitempty"`
	MaxHertz  float64 `json:"maximum_frequency_hertz,omitempty"`
	Governor  string  `json:"governor,omitempty"` // of all threads; several are joined by a comma
	Scaling   string  `json:"frequency_driver,omitempty"`
	Boost     string  `json:"boost,omitempty"`     // on or off
	Threading string  `json:"threading,omitempty"` // SMT: on, off, forceoff, notsupported
	Caches    []Cache `json:"caches,omitempty"`
}

// Cache is one kind of cache, of which there may be several.
type Cache struct {
	Level int    `json:"level"`
	Kind  string `json:"kind"` // Data, Instruction or Unified
	Bytes int64  `json:"size_bytes"`
	Count int    `json:"instances_count"`
}

// ParseList reads a kernel list of numbers like "0-3,8" in order; false: it is none.
// Numbers go up to 65,535.
func ParseList(s string) ([]int, bool) {
	var list []int
	for part := range strings.SplitSeq(strings.TrimSpace(s), ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		a, errA := strconv.ParseUint(from, 10, 16)
		b, errB := strconv.ParseUint(to, 10, 16)
		if errA != nil || errB != nil || a > b {
			return nil, false
		}
		for i := a; i <= b; i++ {
			list = append(list, int(i))
		}
	}
	return list, true
}

func (f *files) processor(cpuinfo string) Processor {
	const base = "sys/devices/system/cpu"
	first := fields(cpuinfo)
	p := Processor{
		Model:     first["model name"],
		Maker:     first["vendor_id"],
		Online:    f.word(base + "/online"),
		Threading: f.word(base + "/smt/control"),
		Scaling:   f.word(base + "/cpu0/cpufreq/scaling_driver"),
		MaxHertz:  1000 * float64(f.number(base+"/cpu0/cpufreq/cpuinfo_max_freq")),
	}
	if part := first["CPU part"]; p.Model == "" && part != "" { // ARM gives numbers for names
		p.Model = fmt.Sprintf("implementer %s part %s revision %s", first["CPU implementer"], part, first["CPU revision"])
	}
	if mhz, err := strconv.ParseFloat(first["cpu MHz"], 64); err == nil {
		p.Hertz = math.Round(mhz * 1e6)
	}
	switch {
	case f.word(base+"/cpufreq/boost") == "1" || f.word(base+"/intel_pstate/no_turbo") == "0":
		p.Boost = "on"
	case f.word(base+"/cpufreq/boost") == "0" || f.word(base+"/intel_pstate/no_turbo") == "1":
		p.Boost = "off"
	}
	status, _ := f.text("proc/self/status")
	p.Allowed = fields(status)["Cpus_allowed_list"]
	for _, name := range f.names("sys/devices/system/node") {
		if n, ok := strings.CutPrefix(name, "node"); ok && isNumber(n) {
			p.Nodes++
		}
	}
	f.topology(&p, base, cpuinfo)
	return p
}

// topology counts sockets, cores and caches, and collects the governors in use.
func (f *files) topology(p *Processor, base, cpuinfo string) {
	online, ok := ParseList(p.Online)
	if !ok {
		for line := range strings.Lines(cpuinfo) {
			if name, n, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "processor" {
				if i, err := strconv.Atoi(strings.TrimSpace(n)); err == nil {
					online = append(online, i)
				}
			}
		}
	}
	p.Threads = len(online)
	type core struct{ socket, number string }
	type shared struct {
		Cache
		by string
	}
	sockets, cores, caches := map[string]bool{}, map[core]bool{}, map[shared]bool{}
	var governors []string
	for _, n := range online {
		dir := path.Join(base, "cpu"+strconv.Itoa(n))
		c := core{f.word(dir + "/topology/physical_package_id"), f.word(dir + "/topology/core_id")}
		if c.number == "" {
			c.number = strconv.Itoa(n)
		}
		sockets[c.socket], cores[c] = true, true
		for _, index := range f.names(dir + "/cache") {
			at := dir + "/cache/" + index
			size, ok := strings.CutSuffix(f.word(at+"/size"), "K")
			if kib, err := strconv.ParseInt(size, 10, 64); ok && err == nil {
				c := Cache{Level: int(f.number(at + "/level")), Kind: f.word(at + "/type"), Bytes: kib << 10}
				caches[shared{c, f.word(at + "/shared_cpu_list")}] = true
			}
		}
		if g := f.word(dir + "/cpufreq/scaling_governor"); g != "" && !slices.Contains(governors, g) {
			governors = append(governors, g)
		}
	}
	p.Sockets, p.Cores = len(sockets), len(cores)
	slices.Sort(governors)
	p.Governor = strings.Join(governors, ",")
	for c := range caches {
		i := slices.IndexFunc(p.Caches, func(k Cache) bool { return k.Level == c.Level && k.Kind == c.Kind && k.Bytes == c.Bytes })
		if i < 0 {
			i = len(p.Caches)
			p.Caches = append(p.Caches, c.Cache)
		}
		p.Caches[i].Count++
	}
	slices.SortFunc(p.Caches, func(a, b Cache) int {
		return cmp.Or(cmp.Compare(a.Level, b.Level), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Bytes, b.Bytes))
	})
}

func isNumber(s string) bool {
	_, err := strconv.ParseUint(s, 10, 32)
	return err == nil
}

// cgroup reads the limits of the group this process is in and of all groups around
// it, of which the narrowest counts.
func (f *files) cgroup() Cgroup {
	text, _ := f.text("proc/self/cgroup")
	where := map[string]string{} // by controller; "" is version 2
	for line := range strings.Lines(text) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		names, dir, ok := strings.Cut(rest, ":")
		if !ok {
			continue
		}
		for name := range strings.SplitSeq(names, ",") {
			where[name] = dir
		}
	}
	c := Cgroup{}
	narrow := func(cores float64, bytes int64) {
		if cores > 0 && (c.QuotaCores == 0 || cores < c.QuotaCores) {
			c.QuotaCores = cores
		}
		if bytes > 0 && bytes < 1<<60 && (c.MemoryBytes == 0 || bytes < c.MemoryBytes) { // version 1 writes "none" as nearly 2^63
			c.MemoryBytes = bytes
		}
	}
	if _, ok := where["cpu"]; ok {
		c.Version = 1
		f.upwards("sys/fs/cgroup/cpu", where["cpu"], func(dir string) {
			narrow(quotient(f.word(dir+"/cpu.cfs_quota_us"), f.word(dir+"/cpu.cfs_period_us")), 0)
		})
	}
	if _, ok := where["memory"]; ok {
		c.Version = 1
		f.upwards("sys/fs/cgroup/memory", where["memory"], func(dir string) {
			narrow(0, f.number(dir+"/memory.limit_in_bytes"))
		})
	}
	if dir, ok := where[""]; ok && c.Version == 0 {
		c.Version = 2
		f.upwards("sys/fs/cgroup", dir, func(dir string) {
			quota, period, _ := strings.Cut(f.word(dir+"/cpu.max"), " ")
			narrow(quotient(quota, period), f.number(dir+"/memory.max"))
		})
	}
	return c
}

// upwards visits a group and the groups around it. Inside a container the group's own
// path may not exist; its root then stands for it.
func (f *files) upwards(mount, group string, visit func(dir string)) {
	for dir := path.Clean("/" + group); ; dir = path.Dir(dir) {
		visit(path.Join(mount, dir))
		if dir == "/" {
			return
		}
	}
}

// quotient returns a / b, 0 if either is not a positive number.
func quotient(a, b string) float64 {
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	if errX != nil || errY != nil || x <= 0 || y <= 0 {
		return 0
	}
	return x / y
}
