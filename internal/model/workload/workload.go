// Package workload states what the slots of a run ask for.
//
// Call [Preset] or [Parse] for a workload and [Workload.Sampler] to draw ops.
// It performs no operation, judges none and reads no file.
package workload

import (
	"errors"
	"time"

	"tidemark.dev/internal/model/fileset"
)

// Kind is the kind of an operation.
type Kind uint8

// The five kinds, in the order of the TOML form.
const (
	Static Kind = iota // GET of a file
	Get                // standard dynamic GET
	CGI                // standard dynamic GET, one process per request
	CAD                // dynamic GET with custom ad rotation
	Post               // dynamic POST
)

// Kinds is the number of kinds.
const Kinds = 5

func (k Kind) String() string {
	return [...]string{"static", "get", "cgi", "cad", "post"}[k]
}

// Pacing modes of [Pacing.Mode].
const (
	Rated    = "rated"
	Deferred = "deferred"
	None     = "none"
)

// Workload is the effective form of a workload file.
type Workload struct {
	Version     int         `toml:"version"`
	Name        string      `toml:"name"`
	About       string      `toml:"about"`
	Assumed     []string    `toml:"assumed"`
	Files       Files       `toml:"files"`
	Mix         Mix         `toml:"mix"`
	Sessions    Sessions    `toml:"sessions"`
	Pacing      Pacing      `toml:"pacing"`
	Conformance Conformance `toml:"conformance"`
	Routes      Routes      `toml:"routes"`
	Users       Users       `toml:"users"`
	Ads         Ads         `toml:"ads"`
	TLS         *TLS        `toml:"tls"`
}

// Files states the file set and its popularity.
type Files struct {
	Law         string      `toml:"law"`
	Directories Directories `toml:"directories"`
	Zipf        float64     `toml:"zipf"`
	Order       []int       `toml:"order"`
	Class       []Class     `toml:"class"`
}

// Directories states how many directories a load needs and how they are drawn.
type Directories struct {
	Base            int     `toml:"base"`
	BitsPerOp       int64   `toml:"bits_per_op"`
	OpsPerDirectory int64   `toml:"ops_per_directory"`
	Fixed           int     `toml:"fixed"`
	Zipf            float64 `toml:"zipf"`
}

// Class states one size class.
type Class struct {
	Share float64 `toml:"share"`
	Sizes []int64 `toml:"sizes"`
}

// Mix states the share of each kind of operation.
type Mix struct {
	Static float64 `toml:"static"`
	Get    float64 `toml:"get"`
	CGI    float64 `toml:"cgi"`
	CAD    float64 `toml:"cad"`
	Post   float64 `toml:"post"`
}

// Sessions states how many requests a connection carries and its protocol.
type Sessions struct {
	KeepaliveShare  float64 `toml:"keepalive_share"`
	Of              string  `toml:"of"`
	Shortest        int     `toml:"shortest"`
	Longest         int     `toml:"longest"`
	HTTP10Single    float64 `toml:"http10_single"`
	HTTP10Keepalive float64 `toml:"http10_keepalive"`
}

// Pacing states how a slot receives.
type Pacing struct {
	Mode            string        `toml:"mode"`
	LineBps         int64         `toml:"line_bps"`
	QuantumBytes    int           `toml:"quantum_bytes"`
	RecvBufferBytes int           `toml:"recv_buffer_bytes"`
	SegmentBytes    int           `toml:"segment_bytes"`
	Timeout         time.Duration `toml:"timeout"`
	Backoff         time.Duration `toml:"backoff"`
}

// Conformance states when a slot conforms and an iteration passes.
type Conformance struct {
	FloorBps   int64         `toml:"floor_bps"`
	PassShare  float64       `toml:"pass_share"`
	ErrorShare float64       `toml:"error_share"`
	MinOps     int           `toml:"min_ops"`
	RawFrom    time.Duration `toml:"raw_from"`
}

// Routes names the dynamic scripts.
type Routes struct {
	Get     string `toml:"get"`
	CGI     string `toml:"cgi"`
	CAD     string `toml:"cad"`
	Post    string `toml:"post"`
	Command string `toml:"command"`
}

// Users states the number of users.
type Users struct {
	PerConnection float64 `toml:"per_connection"`
	Min           int     `toml:"min"`
}

// Ads states the ad table.
type Ads struct {
	Count int   `toml:"count"`
	Exp   []int `toml:"exp"`
}

// TLS states the encryption of a workload; nil means plain HTTP.
type TLS struct {
	Versions    []string `toml:"versions"`
	Key         string   `toml:"key"`
	ResumeShare float64  `toml:"resume_share"`
}

// Op is one drawn operation.
type Op struct {
	Kind   Kind
	File   fileset.File
	First  bool // first request of its session: on a new connection
	Last   bool // last request of its session: Connection: close
	HTTP10 bool // the session speaks HTTP/1.0
	Start  bool // drawn by First: length-biased, left out of chi-square counts
	User   int32
	LastAd int32
	Index  uint64
}

// Cursor is the place of a slot in its sequence; a plain value.
type Cursor struct {
	Seed  uint64
	Index uint64
	Slot  uint32
	left  uint8
	flags uint8
}

// Sampler holds the tables for one number of directories and users.
type Sampler struct{ Dirs, Users int }

// Parse reads the TOML form.
func Parse(file string, src []byte) (*Workload, error) { return nil, errors.New("not yet") }

// Preset returns a workload by name.
func Preset(name string) (*Workload, error) { return nil, errors.New("not yet") }

// Names lists the presets.
func Names() []string { return []string{"web99", "web99-tls"} }

// Source returns the text of a preset.
func Source(name string) ([]byte, error) { return nil, errors.New("not yet") }

// Digest identifies the law.
func (w *Workload) Digest() string { return "" }

// Dirs returns the number of directories of a load.
func (w *Workload) Dirs(load int) int { return 0 }

// UserCount returns the number of users of a load.
func (w *Workload) UserCount(load int) int { return 0 }

// RequestsPerConnection returns the mean number of requests of a connection.
func (w *Workload) RequestsPerConnection() float64 { return 0 }

// Sampler builds the tables; dirs and users must be at least 1.
func (w *Workload) Sampler(dirs, users int) *Sampler { return nil }

// Next draws the next op.
func (s *Sampler) Next(c *Cursor, op *Op) {}

// First draws the op in progress at a random instant of an endless sequence.
func (s *Sampler) First(c *Cursor, op *Op) (done float64) { return 0 }

// MeanBits returns the law's mean bits per op.
func (s *Sampler) MeanBits(headerBits float64) float64 { return 0 }

// ClassShare returns the expected share of each class.
func (s *Sampler) ClassShare() []float64 { return nil }

// FileShare returns the expected share of each file number.
func (s *Sampler) FileShare() []float64 { return nil }

// DirShare returns the expected share of each directory.
func (s *Sampler) DirShare() []float64 { return nil }

// KindShare returns the expected share of each kind.
func (s *Sampler) KindShare() []float64 { return nil }

// ChiSquare tests counts against shares.
func ChiSquare(observed []uint64, expected []float64) (stat, p float64) { return 0, 1 }
