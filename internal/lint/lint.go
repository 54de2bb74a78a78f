// Package lint holds the architecture of this repository as a test.
//
// `go test ./internal/lint` reads every file of the tree, applies the rules of [Rules]
// and prints each breach with the rule's reason. [Load] and [Check] do the work;
// what is asked stands in one table, in rules.go.
//
// It needs no network, no build and no type information: it parses and looks. What
// vet, gofmt and the compiler see already is left to them. Tests may import and call
// what they like, but for what a rule says of all files.
package lint

import (
	"fmt"
	"slices"
	"strings"
)

// Rule is one row of the table.
type Rule struct {
	Name   string // one word, unique
	Reason string // why; printed with every finding
	Check  func(t *Tree, report Report)
}

// Report notes a breach: at a path and line (0: the whole file or directory), with
// what was found there.
type Report func(path string, line int, format string, a ...any)

// Finding is a breach of a rule.
type Finding struct {
	Rule string
	Path string // relative to the root, with slashes
	Line int    // from 1; 0: the file or directory as a whole
	Text string
	Why  string
}

// String returns two lines: what is where, and the rule with its reason.
func (f Finding) String() string {
	at := f.Path
	if f.Line > 0 {
		at = fmt.Sprintf("%s:%d", f.Path, f.Line)
	}
	return fmt.Sprintf("%s: %s\n\t%s: %s", at, f.Text, f.Rule, f.Why)
}

// Exception lets one file or directory break one rule for a stated reason.
type Exception struct {
	Rule, Path, Reason string
	Most               int // for the rule "budget": the lines allowed instead
}

// covers reports whether the exception holds for a finding.
func (e Exception) covers(rule, path, text string) bool {
	if e.Rule != rule || e.Path != path {
		return false
	}
	if rule != "budget" {
		return true
	}
	var lines int
	n, _ := fmt.Sscanf(text, "%d lines", &lines)
	return n == 1 && lines <= e.Most
}

// Check applies rules to t and returns what they found, less the exceptions. An
// exception that nothing needs any more is itself a finding, so the list can only
// shrink without somebody adding to it in plain sight.
func Check(t *Tree, rules []Rule, exceptions []Exception) []Finding {
	var found []Finding
	used := make([]bool, len(exceptions))
	for _, r := range rules {
		r.Check(t, func(path string, line int, format string, a ...any) {
			text := fmt.Sprintf(format, a...)
			for i, e := range exceptions {
				if e.covers(r.Name, path, text) {
					used[i] = true
					return
				}
			}
			found = append(found, Finding{r.Name, path, line, text, r.Reason})
		})
	}
	for i, e := range exceptions {
		if !used[i] {
			found = append(found, Finding{
				"exceptions", e.Path, 0, fmt.Sprintf("the exception from %q is not needed any more", e.Rule),
				"the list of exceptions only shrinks: delete its row",
			})
		}
	}
	slices.SortStableFunc(found, func(a, b Finding) int {
		if a.Path != b.Path {
			return strings.Compare(a.Path, b.Path)
		}
		return a.Line - b.Line
	})
	return found
}
