package disclosure

// LogCheck compares the target's access log with what drivers and prime counted, from the start of the server to
// its end: requests answered and bytes sent, headers included. Agreement is exact or it is not there; Why says what
// stood in its way.
type LogCheck struct {
	Path        string `json:"path"`
	LogOps      int64  `json:"logged_operations_count"`
	LogBytes    int64  `json:"logged_bytes"`
	DriverOps   int64  `json:"driver_operations_count"`
	DriverBytes int64  `json:"driver_received_bytes"`
	Agree       bool   `json:"agree"`
	Why         string `json:"why,omitempty"`
}
