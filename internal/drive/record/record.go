// Package record joins judgement and document: it turns what conform judged into the typed form of disclosure, and
// a saved document back into what conform can judge again.
//
// Call FromIteration when an iteration has been judged, and Recheck to judge a saved run again.
//
// It measures nothing and reads no file.
package record

import (
	"tidemark.dev/disclosure"
	"tidemark.dev/internal/model/conform"
)

// FromRule and ToRule convert the rule.
func FromRule(r conform.Rule) disclosure.Rule { return disclosure.Rule{} }

// ToRule restores the rule of a document.
func ToRule(r disclosure.Rule) conform.Rule { return conform.Rule{} }

// FromReasons converts reasons.
func FromReasons(rs []conform.Reason) []disclosure.Reason { return nil }

// FromIteration fills the part of a disclosed iteration that comes from a record and its judgement.
func FromIteration(it *conform.Iteration, j *conform.Judgement, r conform.Rule) disclosure.Iteration {
	return disclosure.Iteration{}
}

// FromRecords converts the slot records of iteration number n.
func FromRecords(n int, rs []conform.Record) []disclosure.SlotRecord { return nil }

// ToIteration restores an iteration from the document and its slot records.
func ToIteration(it *disclosure.Iteration, slots []disclosure.SlotRecord) *conform.Iteration { return nil }

// Difference is a figure that does not come out as the document says.
type Difference struct {
	Iteration int    // number, 0 for the run as a whole
	Key       string // key of the document
	Saved     string
	Computed  string
}

// Recheck judges every iteration of d again from its slot records, and the run from its iterations.
func Recheck(d *disclosure.Document, slots []disclosure.SlotRecord) []Difference { return nil }
