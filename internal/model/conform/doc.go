// Package conform turns records into verdicts: was the instrument able to measure, which slots kept their
// line speed, does the iteration pass, what is the score, and how far may it be compared.
//
// Call Judge for one iteration and Summarize for a run of several. Both are pure functions of the record, so
// any verdict can be recomputed later from what was saved, and the order of records or their split among
// agents changes nothing.
//
// The package measures nothing, reads nothing and draws nothing. It never mixes two questions: Valid speaks of
// the instrument, Passing of the target, Comparable of the setting.
package conform
