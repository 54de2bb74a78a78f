package conform

import "time"

// Rule holds the figures verdicts depend on. The zero value is not usable; start from DefaultRule.
type Rule struct {
	// LineBps is the line speed, FloorBps the rate a conforming slot must reach, both in bit/s.
	LineBps, FloorBps int64
	// PassShare is the share of requested slots that must conform (0 to 1).
	PassShare float64
	// ErrorShare is the share of failed operations no slot and no iteration may reach (0 to 1).
	ErrorShare float64
	// MinOps is the number of operations from which a slot's error share is judged by itself.
	MinOps int
	// RawFrom is the shortest window judged by the raw rate; shorter ones use the size-adjusted rate.
	RawFrom time.Duration
	// MeanBits is the law's mean of HTTP-layer bits per operation; the size-adjusted rate needs it.
	MeanBits float64

	// IdentityError bounds |sum of op time / (requested x window) - 1|.
	IdentityError float64
	// LateShare bounds lateness as a share of op time, LateSlots the share of slot verdicts it may change where the
	// iteration passes; a single one it may change in any case.
	LateShare, LateSlots float64
	// MinP is the smallest p-value a drawn distribution may have.
	MinP float64
	// MaxClockOffset bounds the distance between agents' clocks.
	MaxClockOffset time.Duration
	// MaxStolen bounds run-queue delay and steal of a comparable run, as shares.
	MaxStolen float64
}

// DefaultRule is the web99 rule: 400 kbit/s line, 320 kbit/s floor, 99 % of slots, fewer than 1 % failed operations.
func DefaultRule() Rule {
	return Rule{
		LineBps: 400_000, FloorBps: 320_000,
		PassShare: 0.99, ErrorShare: 0.01, MinOps: 300,
		RawFrom: 1200 * time.Second, MeanBits: 120_000,
		IdentityError: 0.001, LateShare: 0.01, LateSlots: 0.005,
		MinP: 1e-6, MaxClockOffset: 100 * time.Millisecond, MaxStolen: 0.02,
	}
}
