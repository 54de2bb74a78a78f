package sysinfo

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Fact is one property of a host as a disclosure or a terminal shows it.
type Fact struct {
	Group string // kernel, machine, processor, memory, cgroup, limits, interface NAME, sysctl, mitigation
	Name  string // words, without the unit
	Value any    // string, float64 or bool
	Unit  string // of a number: bytes, count, hertz, cores, bits per second
}

// Facts lists what is known, in a fixed order. What is not known is not listed; a
// limit that is none is the text "unlimited" or, for a cgroup, "none".
func (h *Host) Facts() []Fact {
	var list []Fact
	text := func(group, name, value string) {
		if value != "" {
			list = append(list, Fact{group, name, value, ""})
		}
	}
	number := func(group, name string, value float64, unit string) {
		if value != 0 {
			list = append(list, Fact{group, name, value, unit})
		}
	}
	limit := func(name string, value int64, unit string) {
		if value == Unlimited {
			text("limits", name, "unlimited")
		} else {
			number("limits", name, float64(value), unit)
		}
	}
	flag := func(group, name string, value bool) { list = append(list, Fact{group, name, value, ""}) }

	text("kernel", "release", h.Kernel.Release)
	text("kernel", "build", h.Kernel.Build)
	text("kernel", "architecture", h.Kernel.Architecture)
	text("kernel", "distribution", h.Distribution)
	text("kernel", "boot options", h.Kernel.Options)
	text("kernel", "clock source", h.Kernel.ClockSource)

	text("machine", "maker", h.Machine.Maker)
	text("machine", "product", h.Machine.Product)
	flag("machine", "virtual", h.Machine.Virtual)
	text("machine", "container", h.Machine.Container)

	p := &h.Processor
	text("processor", "model", p.Model)
	text("processor", "maker", p.Maker)
	number("processor", "sockets", float64(p.Sockets), "count")
	number("processor", "cores", float64(p.Cores), "count")
	number("processor", "threads", float64(p.Threads), "count")
	number("processor", "numa nodes", float64(p.Nodes), "count")
	text("processor", "online", p.Online)
	text("processor", "allowed", p.Allowed)
	number("processor", "frequency", p.Hertz, "hertz")
	number("processor", "maximum frequency", p.MaxHertz, "hertz")
	text("processor", "governor", p.Governor)
	text("processor", "frequency driver", p.Scaling)
	text("processor", "boost", p.Boost)
	text("processor", "threading", p.Threading)
	for _, c := range p.Caches {
		text("processor", fmt.Sprintf("cache level %d %s", c.Level, strings.ToLower(c.Kind)), fmt.Sprintf("%d x %d KiB", c.Count, c.Bytes>>10))
	}

	m := &h.Memory
	number("memory", "total", float64(m.TotalBytes), "bytes")
	number("memory", "available", float64(m.AvailableBytes), "bytes")
	number("memory", "swap", float64(m.SwapBytes), "bytes")
	number("memory", "huge pages", float64(m.HugePages), "count")
	if m.HugePages > 0 {
		number("memory", "huge page", float64(m.HugePageBytes), "bytes")
	}
	text("memory", "transparent hugepages", m.TransparentHugePage)

	if c := &h.Cgroup; c.Version > 0 {
		number("cgroup", "version", float64(c.Version), "")
		if number("cgroup", "processor quota", c.QuotaCores, "cores"); c.QuotaCores == 0 {
			text("cgroup", "processor quota", "none")
		}
		if number("cgroup", "memory limit", float64(c.MemoryBytes), "bytes"); c.MemoryBytes == 0 {
			text("cgroup", "memory limit", "none")
		}
	}

	limit("open files", h.Limits.OpenFiles, "count")
	limit("open files, hard", h.Limits.OpenFilesHard, "count")
	limit("processes", h.Limits.Processes, "count")
	limit("locked memory", h.Limits.LockedBytes, "bytes")
	limit("locked memory, hard", h.Limits.LockedBytesHard, "bytes")

	for _, i := range h.Interfaces {
		group := "interface " + i.Name
		text(group, "driver", i.Driver)
		text(group, "state", i.State)
		number(group, "speed", float64(i.BitsPerSecond), "bits per second")
		text(group, "duplex", i.Duplex)
		number(group, "mtu", float64(i.MTU), "bytes")
		number(group, "receive queues", float64(i.RxQueues), "count")
		number(group, "transmit queues", float64(i.TxQueues), "count")
	}
	for _, name := range slices.Sorted(maps.Keys(h.Sysctls)) {
		text("sysctl", name, h.Sysctls[name])
	}
	for _, name := range slices.Sorted(maps.Keys(h.Mitigations)) {
		text("mitigation", name, h.Mitigations[name])
	}
	return list
}
