// Package disclosure is the result document of Tidemark: everything needed to judge a run and to repeat it.
//
// Call Read (or Load for a result folder) to get a Document, and Save to write one so that a reader never sees a
// half-written file. Slots and seconds, too many for one document, stand beside it in .ndjson.zst files: see
// ReadSlots and ReadSeconds.
//
// The package judges nothing: it carries verdicts and the figures they came from. It checks a document's shape
// (Check), not its arithmetic.
//
// Every key that holds a number names its unit. Keys are only ever added within a major version.
package disclosure

// Schema is the version this package writes. A reader accepts every minor version of the same major version.
const Schema = "tidemark.result/1.0"

// States of a document.
const (
	// Complete: the run ended by itself and the verdict is final.
	Complete = "complete"
	// Running: the run was under way when this was written. Found on disk later, it means that the run was killed.
	Running = "running"
	// Interrupted: the user ended the run early.
	Interrupted = "interrupted"
	// Failed: the run ended by an error; see Verdict.
	Failed = "failed"
)

// Document is one run.
type Document struct {
	Schema string `json:"schema"`
	State  string `json:"state"`

	Tool          Tool          `json:"tool"`
	Run           Run           `json:"run"`
	Verdict       Verdict       `json:"verdict"`
	Sheet         Sheet         `json:"sheet"`
	Configuration Configuration `json:"configuration"`
	Hosts         []Host        `json:"hosts"`
	Search        *Search       `json:"search,omitempty"`
	Iterations    []Iteration   `json:"iterations"`
	Log           *LogCheck     `json:"access_log,omitempty"`
}

// Tool is the program that made the document.
type Tool struct {
	Name      string `json:"name"`
	Version   string `json:"version"`
	Revision  string `json:"revision,omitempty"`
	GoVersion string `json:"go_version,omitempty"`
	Platform  string `json:"platform,omitempty"` // "linux/amd64"
}

// Run is the identity of the run.
type Run struct {
	ID         string   `json:"id"`
	Title      string   `json:"title,omitempty"`
	StartedAt  string   `json:"started_at"`            // RFC 3339
	FinishedAt string   `json:"finished_at,omitempty"` // RFC 3339
	Command    []string `json:"command,omitempty"`
	Workload   string   `json:"workload"` // name: "web99", "web99-tls" or the file's
	Profile    string   `json:"profile"`  // "quick", "standard", "full"
	Topology   string   `json:"topology"` // "local", "remote"
	Server     string   `json:"server"`   // product and version in words, "nginx 1.26.3"
	// Estimate says that the run is too short to be a result. Comparable says that it may be set beside other
	// runs; Incomparable names the reasons why not.
	Estimate     bool     `json:"estimate"`
	Comparable   bool     `json:"comparable"`
	Incomparable []Reason `json:"incomparable_reasons,omitempty"`
}

// Verdicts in one word.
const (
	Passes      = "passes"
	DoesNotPass = "does_not_pass"
	BrokeRules  = "broke_rules"
	InvalidRun  = "invalid"
	NoVerdict   = "none" // nothing measured (yet)
)

// Verdict is the answer.
type Verdict struct {
	// Word is one of the constants above, Words a sentence for people.
	Word  string `json:"word"`
	Words string `json:"words"`
	// ExitCode is what the program ended with: 0, 1, 2, 3, 4 or 130.
	ExitCode int `json:"exit_code"`
	// Score is the median conforming count, Load the requested one it was reached at; 0 without a score.
	Score int `json:"score_connections"`
	Load  int `json:"load_connections"`
	// AtLeast says that no load above was seen to fail; Driver that the driver could make no more.
	AtLeast bool `json:"at_least"`
	Driver  bool `json:"driver_limited"`
	// MedianIteration is the number (from 1) of the iteration the score was taken from, 0 without a score.
	MedianIteration int      `json:"median_iteration_number"`
	Reasons         []Reason `json:"reasons,omitempty"`
	Hints           []string `json:"hints,omitempty"`
}

// Reason explains a part of a verdict.
type Reason struct {
	// Code never changes and Text is a sentence with its figures.
	Code string `json:"code"`
	Text string `json:"text"`
	// Effect is "invalid", "not_passing", "broke_rules", "incomparable" or "note".
	Effect string `json:"effect,omitempty"`
	// Origin is "target", "network", "driver", "config" or "unknown".
	Origin string `json:"origin,omitempty"`
	// Value is what was seen and Limit what is allowed, both in Unit ("percent", "operations" ...).
	Value *float64 `json:"value_in_unit,omitempty"`
	Limit *float64 `json:"limit_in_unit,omitempty"`
	Unit  string   `json:"unit,omitempty"`
}

// Configuration is what was set.
type Configuration struct {
	Workload Text    `json:"workload"` // effective text and digest
	Rule     Rule    `json:"rule"`
	Seed     uint64  `json:"seed_number,string"`
	FileSeed uint64  `json:"file_seed_number,string"`
	FileSet  FileSet `json:"file_set"`
	Target   Target  `json:"target"`
	Drivers  Drivers `json:"drivers"`
	Phases   Phases  `json:"phases"`
	// Overrides names the parameters that differ from the profile's, "window=10s".
	Overrides []string `json:"overrides,omitempty"`
}

// Text is a piece of configuration with the digest of its bytes.
type Text struct {
	Name   string `json:"name"`
	Path   string `json:"path,omitempty"` // file beside the document, if any
	Digest string `json:"digest"`         // "sha256:..." or "xxh3:..."
	Text   string `json:"text,omitempty"`
}

// Rule is the conformance rule, and what Recheck needs to judge again.
type Rule struct {
	LineSpeed     int64   `json:"line_speed_bits_per_second"`
	Floor         int64   `json:"floor_bits_per_second"`
	Pass          float64 `json:"pass_percent"`
	Errors        float64 `json:"error_limit_percent"`
	MinOps        int     `json:"error_limit_from_operations"`
	RawFrom       float64 `json:"raw_rate_from_seconds"`
	MeanBits      float64 `json:"mean_operation_bits"`
	IdentityError float64 `json:"identity_limit_percent"`
	Late          float64 `json:"late_limit_percent"`
	LateSlots     float64 `json:"late_slots_limit_percent"`
	MinP          float64 `json:"chi_square_p_limit_probability"`
	ClockOffset   float64 `json:"clock_offset_limit_milliseconds"`
	Stolen        float64 `json:"stolen_time_limit_percent"`
}

// FileSet describes the files served.
type FileSet struct {
	// Directories is what was created, LoadDirectories what the proof iterations drew over.
	Directories     int     `json:"directories_count"`
	LoadDirectories int     `json:"load_directories_count,omitempty"`
	Files           int     `json:"files_count"`
	Bytes           int64   `json:"size_bytes"`
	ReportedMB      float64 `json:"reported_size_megabytes"`
	Path            string  `json:"path,omitempty"`
}

// Target describes the server under test.
type Target struct {
	Kit       string   `json:"kit"`
	Product   string   `json:"product,omitempty"`
	Version   string   `json:"version,omitempty"`
	URLs      []string `json:"urls"`
	Command   []string `json:"command,omitempty"`
	Processes int      `json:"processes_count,omitempty"`
	Files     []Text   `json:"files,omitempty"` // effective configuration
	Digest    string   `json:"digest,omitempty"`
	Affinity  []int    `json:"affinity_cpu_numbers,omitempty"`
}

// Drivers describes what made the load.
type Drivers struct {
	Agents        []Agent  `json:"agents"`
	Pacing        string   `json:"pacing"` // "rated", "deferred", "none"
	ReceiveBuffer int      `json:"receive_buffer_bytes,omitempty"`
	MaxSegment    int      `json:"maximum_segment_bytes,omitempty"`
	Congestion    []string `json:"congestion_controls,omitempty"`
	MTU           int      `json:"mtu_bytes,omitempty"`
	VerifyEvery   int      `json:"verify_every_operations,omitempty"`
	RampPerSecond int      `json:"ramp_connections_per_second,omitempty"`
}

// Agent is one load-making process.
type Agent struct {
	Name        string   `json:"name"`
	Host        string   `json:"host,omitempty"` // name of an entry in Hosts
	Slots       int      `json:"slots_count"`
	First       int      `json:"first_slot_number"`
	Loops       int      `json:"loops_count,omitempty"`
	Backend     string   `json:"backend,omitempty"` // of the loops: "epoll", "io_uring"
	Affinity    []int    `json:"affinity_cpu_numbers,omitempty"`
	Sources     []string `json:"source_addresses,omitempty"`
	ClockOffset float64  `json:"clock_offset_milliseconds"`
}

// Phases gives the lengths of the phases of the run.
type Phases struct {
	WarmUp   float64 `json:"warm_up_seconds"`
	RampUp   float64 `json:"ramp_up_seconds"`
	Window   float64 `json:"window_seconds"`
	RampDown float64 `json:"ramp_down_seconds"`
	Trial    float64 `json:"trial_window_seconds,omitempty"`
	Burst    float64 `json:"burst_seconds,omitempty"`
}

// Host is one machine taking part.
type Host struct {
	Name  string   `json:"name"`
	Roles []string `json:"roles"` // "target", "driver", "prime"
	Facts []Fact   `json:"facts"`
}

// Fact is one property of a host. Exactly one of Text, Number and Flag is set.
type Fact struct {
	Group  string   `json:"group"` // "cpu", "memory", "kernel", "network", "limits", "sysctl" ...
	Name   string   `json:"name"`
	Text   *string  `json:"text,omitempty"`
	Number *float64 `json:"number_in_unit,omitempty"`
	Flag   *bool    `json:"flag,omitempty"`
	Unit   string   `json:"unit,omitempty"`
}

// TextFact, NumberFact and FlagFact make a Fact.
func TextFact(group, name, text string) Fact { return Fact{Group: group, Name: name, Text: &text} }

// NumberFact makes a fact with a number; unit is a word ("bytes", "count", "hertz").
func NumberFact(group, name string, number float64, unit string) Fact {
	return Fact{Group: group, Name: name, Number: &number, Unit: unit}
}

// FlagFact makes a fact that is true or false.
func FlagFact(group, name string, flag bool) Fact { return Fact{Group: group, Name: name, Flag: &flag} }

// Search is the path to the load.
type Search struct {
	FirstGuess int     `json:"first_guess_connections"`
	Min        int     `json:"minimum_connections"`
	Max        int     `json:"maximum_connections"`
	Width      float64 `json:"width_percent"`
	// Burst is what the unpaced burst before the search reached.
	Burst float64 `json:"burst_operations_per_second,omitempty"`
	Steps []Step  `json:"steps"`
	// Answer is "exact", "at least", "at least (driver)", "doomed" or "fixed", Why a sentence.
	Answer string   `json:"answer,omitempty"`
	Why    string   `json:"why,omitempty"`
	Flags  []string `json:"flags,omitempty"`
}

// Step is one step of the search.
type Step struct {
	Number  int     `json:"step_number"`
	Kind    string  `json:"kind"` // "trial", "proof", "fail-proof"
	Attempt int     `json:"attempt_number"`
	Load    int     `json:"load_connections"`
	Window  float64 `json:"window_seconds"`
	Started float64 `json:"started_after_seconds"` // since the run began
	Verdict string  `json:"verdict"`               // "pass", "fail", "invalid", "driver limit"
	// Conforming, Percent, OpsPerSec, KbitPerSlot and LatePercent are the step's figures.
	Conforming  int      `json:"conforming_connections"`
	Percent     float64  `json:"conforming_percent"`
	OpsPerSec   float64  `json:"throughput_operations_per_second"`
	ResponseMS  float64  `json:"response_milliseconds"`
	KbitPerSlot float64  `json:"rate_kilobits_per_second"`
	LatePercent float64  `json:"late_percent"`
	Iteration   int      `json:"iteration_number,omitempty"` // entry in Iterations, if kept
	Why         string   `json:"why,omitempty"`
	Reasons     []Reason `json:"reasons,omitempty"`
}
