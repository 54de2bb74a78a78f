package sysinfo

import (
	"io/fs"
	"path"
	"strings"
)

// Interface is a network interface that is up, or could be: those without hardware
// that are down are left out.
type Interface struct {
	Name          string `json:"name"`
	Driver        string `json:"driver,omitempty"` // empty: no hardware behind it
	State         string `json:"state"`            // up, down, unknown (the loopback's)
	BitsPerSecond int64  `json:"speed_bits_per_second,omitempty"`
	Duplex        string `json:"duplex,omitempty"`
	MTU           int64  `json:"mtu_bytes"`
	RxQueues      int    `json:"receive_queues_count"`
	TxQueues      int    `json:"transmit_queues_count"`
}

func (f *files) interfaces() []Interface {
	const base = "sys/class/net"
	list := []Interface{}
	for _, name := range f.names(base) {
		dir := base + "/" + name
		i := Interface{
			Name:  name,
			State: f.word(dir + "/operstate"),
			MTU:   f.number(dir + "/mtu"),
		}
		if link, err := fs.ReadLink(f.root, dir+"/device/driver"); err == nil {
			i.Driver = path.Base(link)
		}
		if i.State == "" || i.Driver == "" && i.State == "down" {
			continue // bonding_masters and other files that are no interface; spare virtual ones
		}
		if mbit := f.number(dir + "/speed"); mbit > 0 { // -1 or unreadable where there is no speed
			i.BitsPerSecond = mbit * 1e6
			i.Duplex = f.word(dir + "/duplex")
		}
		for _, q := range f.names(dir + "/queues") {
			if strings.HasPrefix(q, "rx-") {
				i.RxQueues++
			} else if strings.HasPrefix(q, "tx-") {
				i.TxQueues++
			}
		}
		list = append(list, i)
	}
	return list
}

// settings are the kernel settings that change what a web server or a load driver can
// do, by directory below /proc/sys.
const settings = `
fs file-max nr_open
kernel numa_balancing sched_autogroup_enabled sched_rt_runtime_us pid_max perf_event_paranoid io_uring_disabled
net/core somaxconn netdev_max_backlog netdev_budget netdev_budget_usecs rmem_default rmem_max wmem_default wmem_max optmem_max default_qdisc busy_poll busy_read rps_sock_flow_entries
net/ipv4 ip_local_port_range ip_local_reserved_ports ip_unprivileged_port_start tcp_congestion_control tcp_available_congestion_control tcp_max_syn_backlog tcp_syncookies tcp_tw_reuse tcp_max_tw_buckets tcp_fin_timeout tcp_max_orphans tcp_orphan_retries tcp_rmem tcp_wmem tcp_mem tcp_moderate_rcvbuf tcp_timestamps tcp_sack tcp_dsack tcp_window_scaling tcp_ecn tcp_fastopen tcp_autocorking tcp_notsent_lowat tcp_limit_output_bytes tcp_slow_start_after_idle tcp_no_metrics_save tcp_mtu_probing tcp_abort_on_overflow tcp_keepalive_time tcp_retries2 tcp_syn_retries tcp_synack_retries tcp_low_latency tcp_rfc1337
net/netfilter nf_conntrack_max nf_conntrack_buckets nf_conntrack_tcp_timeout_time_wait
vm swappiness dirty_ratio dirty_background_ratio overcommit_memory max_map_count nr_hugepages zone_reclaim_mode
`

func (f *files) sysctls() map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(settings) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		for _, name := range words[1:] {
			p := words[0] + "/" + name
			if s := f.word("proc/sys/" + p); s != "" {
				m[strings.ReplaceAll(p, "/", ".")] = s
			}
		}
	}
	return m
}
