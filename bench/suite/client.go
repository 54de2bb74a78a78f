package suite

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"tidemark.dev/internal/drive/target"
)

// Tally is what a client says it did.
type Tally struct {
	Requests int64   `json:"requests"`
	Seconds  float64 `json:"seconds"`
	Bytes    int64   `json:"bytes"`
	Fault    string  `json:"fault,omitempty"` // why the sample is void
}

// Client makes load from one process on one core.
type Client struct {
	Name string // as it stands in every ratio
	// command is the process that loads address with the requests of list for d.
	command func(s *Suite, address netip.AddrPort, list string, d time.Duration) target.Command
	parse   func(output []byte) (Tally, error)
	steady  bool // it says when all connections are served, and keeps them until it is ended
}

// Light is the client of bench/climit: little cost, no bodies. more are its options.
func Light(connections int, more ...string) Client {
	name := fmt.Sprintf("light, %d connections", connections)
	return Client{
		Name: name,
		command: func(s *Suite, a netip.AddrPort, list string, d time.Duration) target.Command {
			args := append([]string{"-c", strconv.Itoa(connections), "-d", seconds(d)}, more...)
			if slices.Contains(Kinds(), filepath.Base(list)) {
				args = append(args, "-r")
			}
			return target.Command{Path: s.Built["light"], Args: append(args, port(a), list)}
		},
		parse: parseJSON,
	}
}

// Steady is Light measured from when all connections are open and served: what it
// takes to open thousands is no part of the figure, and neither is their end.
func Steady(connections int, more ...string) Client {
	c := Light(connections, append(more, "-s")...)
	c.Name, c.steady = c.Name+", steady", true
	return c
}

// Wrk is wrk with the list played by Lua.
func Wrk(connections int) Client {
	return Client{
		Name: fmt.Sprintf("wrk, %d connections", connections),
		command: func(s *Suite, a netip.AddrPort, list string, d time.Duration) target.Command {
			whole := max(1, int(d.Round(time.Second)/time.Second)) // wrk knows no shorter time
			return target.Command{Path: "wrk", Args: []string{
				"-t1", "-c" + strconv.Itoa(connections), "-d" + strconv.Itoa(whole) + "s",
				"-s", s.path("peers/mix.lua"), "http://" + a.String() + "/", "--", list,
			}}
		},
		parse: parseJSON,
	}
}

// H2load is h2load over HTTP/1.1, which checks the status alone.
func H2load(connections int) Client {
	return Client{
		Name: fmt.Sprintf("h2load, %d connections", connections),
		command: func(s *Suite, a netip.AddrPort, list string, d time.Duration) target.Command {
			whole := max(1, int(d.Round(time.Second)/time.Second))
			return target.Command{Path: "h2load", Args: []string{
				"--h1", "-t1", "-c" + strconv.Itoa(connections), "-D" + strconv.Itoa(whole),
				"-B", "http://" + a.String(), "-i", list + ".paths",
			}}
		},
		parse: parseH2load,
	}
}

// Burst is our own driver, unpaced; it checks every length and one body in verify
// byte for byte. full asks for the whole mix and not for files alone.
func Burst(connections, verify int, full bool) Client {
	name := fmt.Sprintf("tidemark, %d connections, 1 body in %d verified", connections, verify)
	if verify == 1 {
		name = fmt.Sprintf("tidemark, %d connections, all bodies verified", connections)
	}
	return Client{
		Name: name,
		command: func(s *Suite, a netip.AddrPort, _ string, d time.Duration) target.Command {
			return target.Command{Path: s.Built["burst"], Args: []string{
				a.String(), strconv.Itoa(connections), d.String(), strconv.Itoa(Dirs), strconv.Itoa(Seed),
				strconv.Itoa(verify), strconv.FormatBool(full), strconv.Itoa(s.ClientCPU),
			}}
		},
		parse: parseJSON,
	}
}

func port(a netip.AddrPort) string     { return strconv.Itoa(int(a.Port())) }
func seconds(d time.Duration) string   { return strconv.FormatFloat(d.Seconds(), 'f', 3, 64) }
func lastLine(b []byte) (line []byte)  { return regexp.MustCompile(`(?m)^\{.*\}$`).Find(b) }
func number(b []byte, re string) int64 { n, _ := strconv.ParseInt(submatch(b, re), 10, 64); return n }

func submatch(b []byte, re string) string {
	if m := regexp.MustCompile(re).FindSubmatch(b); m != nil {
		return string(m[1])
	}
	return ""
}

// parseJSON reads the line that light, mix.lua and burst end with.
func parseJSON(output []byte) (Tally, error) {
	var r struct {
		Tally
		Reconnects int64 `json:"reconnects"`
		BadStatus  int64 `json:"bad_status"`
		BadLength  int64 `json:"bad_length"`
		BadHead    int64 `json:"bad_head"`
		Broken     int64 `json:"broken"`
	}
	line := lastLine(output)
	if line == nil {
		return Tally{}, errors.New("the client printed no result")
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return Tally{}, err
	}
	// A server that closes connections it should keep looks like a slow one.
	if n := r.Reconnects + r.BadStatus + r.BadLength + r.BadHead + r.Broken; n > 0 && r.Fault == "" {
		r.Fault = fmt.Sprintf("%d connections closed early, %d wrong statuses, %d wrong lengths, %d wrong heads, %d broken",
			r.Reconnects, r.BadStatus, r.BadLength, r.BadHead, r.Broken)
	}
	return r.Tally, nil
}

// parseH2load reads h2load's summary.
func parseH2load(output []byte) (Tally, error) {
	d, err := time.ParseDuration(submatch(output, `finished in ([0-9.]+\w+),`))
	if err != nil {
		return Tally{}, fmt.Errorf("h2load printed no time: %w", err)
	}
	t := Tally{Requests: number(output, `(\d+) 2xx`), Seconds: d.Seconds(), Bytes: number(output, `traffic: .*\((\d+)\) total`)}
	if failed := number(output, `(\d+) failed`); failed > 0 {
		t.Fault = fmt.Sprintf("%d requests failed", failed)
	}
	return t, nil
}
