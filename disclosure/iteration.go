package disclosure

// Iteration is one measured window that is kept: a proof, a fail-proof, or an invalid attempt at one.
type Iteration struct {
	Number  int    `json:"iteration_number"` // from 1, in order of time
	Kind    string `json:"kind"`             // "proof", "fail-proof"
	Attempt int    `json:"attempt_number"`
	// Scored says that the iteration is one of those the score was taken from.
	Scored    bool    `json:"scored"`
	StartedAt string  `json:"started_at"` // RFC 3339, start of the window
	Window    float64 `json:"window_seconds"`

	Valid      bool     `json:"valid"`
	Passing    bool     `json:"passing"`
	Comparable bool     `json:"comparable"`
	Broke      bool     `json:"broke_rules"`
	Reasons    []Reason `json:"reasons,omitempty"`

	// The figures of the classic result page.
	Requested   int     `json:"requested_connections"`
	Conforming  int     `json:"conforming_connections"`
	Percent     float64 `json:"conforming_percent"`
	OpsPerSec   float64 `json:"throughput_operations_per_second"`
	ResponseMS  float64 `json:"response_milliseconds"`
	OpsPerSlot  float64 `json:"throughput_operations_per_second_per_connection"`
	KbitPerSlot float64 `json:"rate_kilobits_per_second"`

	FirstByteMS float64 `json:"first_byte_milliseconds"`
	// Identity is 100 x (sum of op time / (requested x window) - 1).
	Identity     float64 `json:"identity_error_percent"`
	Ops          uint64  `json:"operations_count"`
	Failed       uint64  `json:"failed_operations_count"`
	ErrorPercent float64 `json:"failed_percent"`
	// Slow and Erring count the slots that do not conform because of their rate and of their errors.
	Slow   int `json:"slow_connections"`
	Erring int `json:"erring_connections"`
	// JudgedBy is "raw" or "adjusted": which slot rate the verdict used.
	JudgedBy string  `json:"judged_by"`
	Raw      Spread  `json:"raw_rate"`
	Adjusted *Spread `json:"adjusted_rate,omitempty"`

	Errors  []ErrorClass `json:"errors,omitempty"`
	Latency []Latency    `json:"latency,omitempty"` // whole operations
	TTFB    []Latency    `json:"first_byte,omitempty"`
	Traffic Traffic      `json:"traffic"`
	Audit   Audit        `json:"audit"`
	CPU     []CPU        `json:"processor_time,omitempty"`
	Posts   *Posts       `json:"posts,omitempty"`
	// Overview is the series at a size fit for a page; the whole stands in the files.
	Overview *Overview `json:"overview,omitempty"`
	Slots    string    `json:"slots_file,omitempty"`
	Seconds  string    `json:"seconds_file,omitempty"`
}

// Spread is the distribution of a slot rate.
type Spread struct {
	Min  float64 `json:"minimum_kilobits_per_second"`
	P1   float64 `json:"p1_kilobits_per_second"`
	P5   float64 `json:"p5_kilobits_per_second"`
	P25  float64 `json:"p25_kilobits_per_second"`
	P50  float64 `json:"p50_kilobits_per_second"`
	P75  float64 `json:"p75_kilobits_per_second"`
	P95  float64 `json:"p95_kilobits_per_second"`
	P99  float64 `json:"p99_kilobits_per_second"`
	Max  float64 `json:"maximum_kilobits_per_second"`
	Mean float64 `json:"mean_kilobits_per_second"`
	// Counts holds slots per bin; bin i is From + i x Width and up, the first and last are open-ended.
	From   float64 `json:"bins_from_kilobits_per_second"`
	Width  float64 `json:"bin_width_kilobits_per_second"`
	Counts []int   `json:"bins_connections"`
}

// ErrorClass counts failed operations of one class.
type ErrorClass struct {
	Class   string `json:"class"`
	Origin  string `json:"origin"`
	Count   uint64 `json:"operations_count"`
	Example string `json:"example,omitempty"`
}

// Latency is the distribution of a time, per kind of operation.
type Latency struct {
	Kind   string  `json:"kind"` // "static", "get", "cgi", "cad", "post", "all"
	Count  int64   `json:"operations_count"`
	Min    float64 `json:"minimum_milliseconds"`
	Mean   float64 `json:"mean_milliseconds"`
	P50    float64 `json:"p50_milliseconds"`
	P75    float64 `json:"p75_milliseconds"`
	P90    float64 `json:"p90_milliseconds"`
	P95    float64 `json:"p95_milliseconds"`
	P99    float64 `json:"p99_milliseconds"`
	P999   float64 `json:"p99_9_milliseconds"`
	P9999  float64 `json:"p99_99_milliseconds"`
	Max    float64 `json:"maximum_milliseconds"`
	Beyond uint64  `json:"out_of_range_count"`
	// HDR is the whole distribution, values in nanoseconds: HdrHistogram V2, compressed, base64.
	HDR string `json:"hdr_v2_base64_nanoseconds,omitempty"`
}

// Traffic says what moved.
type Traffic struct {
	WireBytes       int64   `json:"received_bytes"`
	CreditedBits    int64   `json:"credited_bits"`
	VerifiedBytes   int64   `json:"verified_bytes"`
	VerifiedOps     uint64  `json:"verified_operations_count"`
	Connects        uint64  `json:"connections_opened_count"`
	Resets          uint64  `json:"connections_reset_count"`
	OpsPerConnect   float64 `json:"operations_per_connection_count"`
	FullHandshakes  uint64  `json:"full_handshakes_count,omitempty"`
	ShortHandshakes uint64  `json:"resumed_handshakes_count,omitempty"`
	FINMissing      uint64  `json:"unclosed_connections_count"`
}

// Audit is what the instrument says about itself.
type Audit struct {
	Agents           int                `json:"agents_count"`
	Reported         int                `json:"agents_reported_count"`
	Attempted        int                `json:"attempted_connections"`
	DriverFailures   map[string]uint64  `json:"driver_failures_count,omitempty"`
	Plan             []Planned          `json:"plan,omitempty"`
	ChiSquareP       map[string]float64 `json:"chi_square_p_probability,omitempty"`
	Late             float64            `json:"late_percent"`
	LateSlots        int                `json:"late_changes_connections"`
	WorstLate        float64            `json:"worst_late_milliseconds"`
	Overflow         uint64             `json:"histogram_overflow_count"`
	MemoryPressure   uint64             `json:"memory_pressure_count"`
	ClockOffset      float64            `json:"clock_offset_milliseconds"`
	RunQueue         float64            `json:"run_queue_percent"`
	Steal            float64            `json:"steal_percent"`
	PortReuse        uint64             `json:"early_port_reuse_count"`
	TimeWaitOverflow uint64             `json:"time_wait_overflow_count"`
	Congestion       []string           `json:"congestion_controls,omitempty"`
}

// Planned compares issued with planned operations.
type Planned struct {
	Kind    string `json:"kind"`
	Issued  uint64 `json:"issued_operations_count"`
	Planned uint64 `json:"planned_operations_count"`
}

// CPU is processor time used by one side during the window.
type CPU struct {
	Name   string  `json:"name"` // "target" or an agent's name
	User   float64 `json:"user_seconds"`
	System float64 `json:"system_seconds"`
	// Cores is the mean number of cores kept busy, Available how many the process may use.
	Cores     float64 `json:"busy_cores"`
	Available float64 `json:"available_cores,omitempty"`
	MaxRSS    int64   `json:"maximum_resident_bytes,omitempty"`
}

// Posts compares acknowledged POSTs with the target's log.
type Posts struct {
	Acked     uint64 `json:"acknowledged_records_count"`
	Found     uint64 `json:"found_records_count"`
	Missing   uint64 `json:"missing_records_count"`
	Doubled   uint64 `json:"doubled_records_count"`
	Foreign   uint64 `json:"foreign_records_count"`
	Uncertain uint64 `json:"uncertain_records_count"`
}

// Overview is the one-second series thinned to a few hundred points; each point is a mean over Interval.
type Overview struct {
	Interval    float64   `json:"interval_seconds"`
	OpsPerSec   []float64 `json:"throughput_operations_per_second"`
	FailPerSec  []float64 `json:"failed_operations_per_second"`
	KbitPerSlot []float64 `json:"rate_kilobits_per_second"`
	LatePercent []float64 `json:"late_percent"`
	Open        []float64 `json:"open_connections"`
}

// SlotRecord is the record of one slot in one iteration: a line of the slots file.
type SlotRecord struct {
	Iteration    int    `json:"iteration_number"`
	Slot         uint32 `json:"slot_number"`
	Ops          uint32 `json:"operations_count"`
	Failed       uint32 `json:"failed_operations_count"`
	Begun        uint32 `json:"begun_operations_count"`
	Connects     uint32 `json:"connections_opened_count"`
	Resets       uint32 `json:"connections_reset_count"`
	CreditedBits int64  `json:"credited_bits"`
	WireBytes    int64  `json:"received_bytes"`
	OpTime       int64  `json:"operation_time_nanoseconds"`
	Late         int64  `json:"late_nanoseconds"`
	FirstByte    int64  `json:"first_byte_nanoseconds"`
	Response     int64  `json:"response_nanoseconds"`
}

// Second is one second of one iteration, over all agents: a line of the seconds file.
type Second struct {
	Iteration int    `json:"iteration_number"`
	Second    int    `json:"second_number"` // from 0, of the window
	Ops       uint64 `json:"operations_count"`
	Failed    uint64 `json:"failed_operations_count"`
	Bits      int64  `json:"received_bits"` // of the HTTP layer
	Late      int64  `json:"late_nanoseconds"`
	Connects  uint64 `json:"connections_opened_count"`
	Open      int    `json:"open_connections"` // at the end of the second
}
