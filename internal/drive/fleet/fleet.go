// Package fleet joins the processes of one run: a prime that commands and
// agents that drive load. They meet on a NATS server, which is embedded in the
// prime unless the user names one, so a run on one machine takes the same path
// as a run on a hundred.
//
// Start a prime with [Open] and an agent with [Join]. The package carries
// calls, beats and the bytes in them; it knows nothing of slots, iterations or
// verdicts.
package fleet

import (
	"encoding/json"
	"fmt"
	"time"

	"tidemark.dev/internal/ground/clock"
	"tidemark.dev/internal/ground/fault"
)

// Version is the version of subjects and messages (docs/formats/fleet.md). A
// prime refuses an agent that speaks another one.
const Version = 1

// Subjects. Everything of a run lies below "tidemark.<run>.", so several runs
// may share one NATS server.
const subjectRoot = "tidemark."

func subjectHello(run string) string        { return subjectRoot + run + ".hello" }
func subjectBeat(run string) string         { return subjectRoot + run + ".beat" }
func subjectCall(run, agent string) string  { return subjectRoot + run + ".call." + agent }
func subjectLeave(run, agent string) string { return subjectRoot + run + ".leave." + agent }

// Times of the protocol. An agent beats every second; a prime that misses five
// beats in a row takes the agent for lost, because a window judged without one
// of its agents would be a window of another load.
const (
	beatEvery  = time.Second
	lostAfter  = 6 * time.Second
	helloEvery = 250 * time.Millisecond
)

// partBytes is the size of one reply message. NATS servers refuse payloads
// over 1 MiB unless told otherwise; records of 18,000 slots are larger, so
// replies travel in parts.
const partBytes = 512 << 10

// Info is what an agent says of itself when it joins.
type Info struct {
	Agent   string `json:"agent"`   // unique in the run
	Version int    `json:"version"` // [Version] of the agent
	Host    string `json:"host"`
	Pid     int    `json:"pid"`
	// DescriptorLimit is the hard RLIMIT_NOFILE of the agent.
	DescriptorLimit uint64 `json:"descriptor_limit"`
	CPUs            []int  `json:"cpus"` // CPUs the agent may use

	// OffsetNS is agent clock minus prime clock in nanoseconds, estimated by
	// the prime from the fastest of several round trips.
	OffsetNS int64 `json:"offset_ns"`
	// RoundTripNS is the round trip behind OffsetNS.
	RoundTripNS int64 `json:"round_trip_ns"`
}

// ToAgent maps an instant of the prime's clock to the agent's.
func (i Info) ToAgent(t clock.Instant) clock.Instant { return t + clock.Instant(i.OffsetNS) }

// ToPrime maps an instant of the agent's clock to the prime's.
func (i Info) ToPrime(t clock.Instant) clock.Instant { return t - clock.Instant(i.OffsetNS) }

// call is the envelope of a command, reply the header of its answer.
type call struct {
	Verb string          `json:"verb"`
	Body json.RawMessage `json:"body,omitempty"`
}

type reply struct {
	Error  string          `json:"error,omitempty"`
	Origin fault.Origin    `json:"origin,omitempty"`
	Hints  []string        `json:"hints,omitempty"`
	Body   json.RawMessage `json:"body,omitempty"`
}

func replyOf(body any, err error) reply {
	if err != nil {
		return reply{Error: err.Error(), Origin: fault.OriginOf(err), Hints: fault.Hints(err)}
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return reply{Error: fmt.Sprintf("encode reply: %v", err), Origin: fault.Driver}
	}
	return reply{Body: raw}
}

func (r reply) err(agent, verb string) error {
	if r.Error == "" {
		return nil
	}
	origin := r.Origin
	if origin == fault.Unknown {
		origin = fault.Driver
	}
	err := fault.New(origin, "%s: %s: %s", agent, verb, r.Error)
	for _, h := range r.Hints {
		err = fault.Hint(err, h)
	}
	return err
}
