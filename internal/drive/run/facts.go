package run

import (
	"fmt"

	"tidemark.dev/disclosure"
	"tidemark.dev/internal/engine/sysinfo"
	"tidemark.dev/internal/ground/fault"
)

// Host describes this machine for a disclosure.
func Host() (disclosure.Host, error) {
	h, err := sysinfo.Read(sysinfo.Live())
	if err != nil {
		return disclosure.Host{}, fault.Wrap(fault.Driver, err, "host")
	}
	out := disclosure.Host{Name: h.Name}
	for _, f := range h.Facts() {
		switch v := f.Value.(type) {
		case string:
			out.Facts = append(out.Facts, disclosure.TextFact(f.Group, f.Name, v))
		case bool:
			out.Facts = append(out.Facts, disclosure.FlagFact(f.Group, f.Name, v))
		case float64:
			out.Facts = append(out.Facts, disclosure.NumberFact(f.Group, f.Name, v, f.Unit))
		}
	}
	return out, nil
}

// fillSheet writes what this machine says of itself into the fields of the classic page that the user left empty.
// It is for a run whose target is this machine.
func (b *bench) fillSheet() error {
	h, err := sysinfo.Read(sysinfo.Live())
	if err != nil {
		return fault.Wrap(fault.Driver, err, "host")
	}
	s := &b.doc.Sheet
	fillIn(&s.Hardware.Vendor, h.Machine.Maker)
	fillIn(&s.Hardware.Model, h.Machine.Product)
	p := h.Processor
	fillIn(&s.Hardware.Processor, p.Model)
	if p.Sockets > 0 {
		fillIn(&s.Hardware.Processors, fmt.Sprintf("%d threads, %d cores, %d chips, %d cores/chip", p.Threads, p.Cores, p.Sockets, p.Cores/p.Sockets))
	}
	for _, c := range p.Caches {
		text := fmt.Sprintf("%d KiB %s, %d of them", c.Bytes>>10, c.Kind, c.Count)
		switch c.Level {
		case 1:
			join(&s.Hardware.PrimaryCache, text)
		case 2:
			join(&s.Hardware.SecondaryCache, text)
		default:
			join(&s.Hardware.OtherCache, text)
		}
	}
	fillIn(&s.Hardware.Memory, fmt.Sprintf("%.1f GiB", float64(h.Memory.TotalBytes)/(1<<30)))
	fillIn(&s.Software.System, h.Distribution+", Linux "+h.Kernel.Release)
	fillIn(&s.Network.Controllers, "loopback")
	fillIn(&s.Network.MTU, fmt.Sprint(b.doc.Configuration.Drivers.MTU))
	return nil
}

// join adds a part to a field of several.
func join(field *string, text string) {
	if *field != "" {
		*field += "; "
	}
	*field += text
}
