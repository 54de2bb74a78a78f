// Package workload states what the slots of a run ask for: which files, how
// popular, by which kinds of operation, on what connections, at what speed, and
// when that counts as served.
//
// Call [Preset] or [Parse] for a workload and [Workload.Sampler] to draw the
// operations of a slot. The TOML form is described in docs/formats/workload.md.
//
// It performs no operation and judges none, opens no file, and its randomness
// is a pure function of seed, slot and operation index.
package workload

import (
	"embed"
	"math"
	"math/bits"
	"time"

	"tidemark.dev/internal/ground/fault"
	"tidemark.dev/internal/model/fileset"
)

// Version is the version of the TOML form that this package reads and writes.
const Version = 1

// Kind is the kind of an operation.
type Kind uint8

// The five kinds, in the order of the TOML form.
const (
	Static Kind = iota // GET of a file
	Get                // standard dynamic GET
	CGI                // standard dynamic GET served by a new process
	CAD                // dynamic GET with custom ad rotation
	Post               // dynamic POST
)

// Kinds is the number of kinds.
const Kinds = 5

// String returns the key of the kind in the mix table.
func (k Kind) String() string {
	switch k {
	case Static:
		return "static"
	case Get:
		return "get"
	case CGI:
		return "cgi"
	case CAD:
		return "cad"
	case Post:
		return "post"
	}
	return "unknown"
}

// Values of [Sessions.Of].
const (
	OfRequests    = "requests"
	OfConnections = "connections"
)

// Limits of the wire formats of the dynamic pages (see model/web99).
const (
	// MaxUsers is how many users the five digits of a user record can number.
	MaxUsers = 100000
	// MaxAds is how many ads the rotation of the pages knows.
	MaxAds = 360
)

// Workload is the effective form of a workload file: every field holds the value
// in force, whether stated or taken from the base. Field by field, with units and
// ranges: docs/formats/workload.md. Treat it as read-only once parsed.
type Workload struct {
	Version     int         `toml:"version"`
	Name        string      `toml:"name"`
	About       string      `toml:"about" form:"optional"`
	Assumed     []string    `toml:"assumed" form:"optional"` // fields without a confirmed source
	Files       Files       `toml:"files"`
	Mix         Mix         `toml:"mix"`
	Sessions    Sessions    `toml:"sessions"`
	Pacing      Pacing      `toml:"pacing"`
	Conformance Conformance `toml:"conformance"`
	Routes      Routes      `toml:"routes"`
	Users       Users       `toml:"users"`
	Ads         Ads         `toml:"ads"`
	TLS         *TLS        `toml:"tls" form:"optional"` // nil: plain HTTP
}

// Files states the file set and the popularity within a class.
type Files struct {
	Law         string      `toml:"law"`   // "web99"
	Zipf        float64     `toml:"zipf"`  // exponent over Order
	Order       []int       `toml:"order"` // file numbers, most popular first
	Directories Directories `toml:"directories"`
	Class       []Class     `toml:"class"`
}

// Directories states how many directories a load needs and how popular they are.
type Directories struct {
	Base            int     `toml:"base"`
	BitsPerOp       int64   `toml:"bits_per_op"`
	OpsPerDirectory int64   `toml:"ops_per_directory"`
	Fixed           int     `toml:"fixed" form:"optional"` // > 0: this many, whatever the load
	Zipf            float64 `toml:"zipf"`
}

// Class states one size class.
type Class struct {
	Share float64 `toml:"share"` // of all operations
	Sizes []int64 `toml:"sizes"` // bytes by file number; must be those of the law
}

// Mix states the share of each kind of operation; the sum is 1.
type Mix struct {
	Static float64 `toml:"static"`
	Get    float64 `toml:"get"`
	CGI    float64 `toml:"cgi"`
	CAD    float64 `toml:"cad"`
	Post   float64 `toml:"post"`
}

// Shares returns the mix indexed by Kind.
func (m Mix) Shares() [Kinds]float64 {
	return [Kinds]float64{Static: m.Static, Get: m.Get, CGI: m.CGI, CAD: m.CAD, Post: m.Post}
}

// Sessions states how many requests a connection carries and which protocol it speaks.
type Sessions struct {
	KeepaliveShare  float64 `toml:"keepalive_share"`  // of what Of says
	Of              string  `toml:"of"`               // OfRequests or OfConnections
	Shortest        int     `toml:"shortest"`         // requests of a keep-alive connection, uniform
	Longest         int     `toml:"longest"`          // up to Longest, at most 255
	HTTP10Single    float64 `toml:"http10_single"`    // share of single-request connections
	HTTP10Keepalive float64 `toml:"http10_keepalive"` // share of keep-alive connections
}

// Pacing states how a slot receives and when it gives up.
type Pacing struct {
	Mode            string        `toml:"mode"`              // "rated", "deferred" or "none"
	LineBps         int64         `toml:"line_bps"`          // bits per second
	QuantumBytes    int           `toml:"quantum_bytes"`     // burst of the token bucket
	RecvBufferBytes int           `toml:"recv_buffer_bytes"` // SO_RCVBUF asked for
	SegmentBytes    int           `toml:"segment_bytes"`     // TCP_MAXSEG
	Timeout         time.Duration `toml:"timeout"`           // without progress
	Backoff         time.Duration `toml:"backoff"`           // after a failed operation
}

// Conformance states when a slot conforms and an iteration passes.
type Conformance struct {
	FloorBps   int64         `toml:"floor_bps"`   // bits per second
	PassShare  float64       `toml:"pass_share"`  // conforming slots of an iteration, at least
	ErrorShare float64       `toml:"error_share"` // failed operations, below
	MinOps     int           `toml:"min_ops"`     // errors are judged per slot from here on
	RawFrom    time.Duration `toml:"raw_from"`    // windows judged by the raw rate
}

// Routes names the dynamic scripts: absolute URL paths without a query.
type Routes struct {
	Get     string `toml:"get"`
	CGI     string `toml:"cgi"`
	CAD     string `toml:"cad"`
	Post    string `toml:"post"`
	Command string `toml:"command"`
}

// Users states how many users the personality table holds.
type Users struct {
	PerConnection float64 `toml:"per_connection"`
	Min           int     `toml:"min"`
}

// Ads states the ad table.
type Ads struct {
	Count int   `toml:"count"`
	Exp   []int `toml:"exp"` // A and B of the Reset command
}

// TLS states the encryption of a workload.
type TLS struct {
	Versions    []string `toml:"versions"`     // "1.2", "1.3"
	Key         string   `toml:"key"`          // one of TLSKeys
	ResumeShare float64  `toml:"resume_share"` // of new connections
}

// TLSKeys lists the key types a [TLS] may name.
func TLSKeys() []string {
	return []string{"ecdsa-p256", "ecdsa-p384", "ed25519", "rsa-2048", "rsa-3072", "rsa-4096"}
}

//go:embed web99.toml web99-tls.toml
var presets embed.FS

// Names lists the presets.
func Names() []string { return []string{"web99", "web99-tls"} }

// Source returns the commented text of a preset.
func Source(name string) ([]byte, error) {
	for _, n := range Names() {
		if n == name {
			return presets.ReadFile(name + ".toml")
		}
	}
	return nil, fault.New(fault.Config, "no workload preset %q (there are %s)", name, list(Names()))
}

// Preset returns a preset by name.
func Preset(name string) (*Workload, error) {
	src, err := Source(name)
	if err != nil {
		return nil, err
	}
	return Parse(name+".toml", src)
}

// Dirs returns the number of directories a load draws over:
// floor(base + line_bps x load / (bits_per_op x ops_per_directory)), computed
// exactly, or the fixed number. It is at most fileset.MaxDirs+1, which no set
// can satisfy: callers that write sets refuse it.
func (w *Workload) Dirs(load int) int {
	d := w.Files.Directories
	if d.Fixed > 0 {
		return d.Fixed
	}
	more := uint64(fileset.MaxDirs)
	hi, lo := bits.Mul64(uint64(max(0, load)), uint64(w.Pacing.LineBps))
	if per := uint64(d.BitsPerOp) * uint64(d.OpsPerDirectory); hi < per {
		q, _ := bits.Div64(hi, lo, per)
		more = min(more, q)
	}
	return min(d.Base+int(more), fileset.MaxDirs+1)
}

// UserCount returns the number of users for a load: per_connection x load rounded
// up, at least min, at most MaxUsers.
func (w *Workload) UserCount(load int) int {
	n := math.Ceil(w.Users.PerConnection * float64(max(0, load)))
	return max(w.Users.Min, int(min(n, MaxUsers)))
}

// RequestsPerConnection returns the mean number of requests a connection carries:
// 1/0.37 = 2.70 for web99, 7.3 in the other reading.
func (w *Workload) RequestsPerConnection() float64 {
	p, m := w.Sessions.single(), w.Sessions.mean()
	return float64(p) + float64((1-p)*m)
}

// mean returns the mean number of requests of a keep-alive connection.
func (s Sessions) mean() float64 { return float64(s.Shortest+s.Longest) / 2 }

// single returns the probability that a new connection carries one request. When
// the share is one of requests, a keep-alive connection stands for mean() of
// them: (1-q) / (1-q + q/mean), 0.3/0.37 for web99.
func (s Sessions) single() float64 {
	single, keep := 1-s.KeepaliveShare, s.KeepaliveShare
	if s.Of == OfRequests {
		keep /= s.mean()
	}
	return single / (single + keep)
}
