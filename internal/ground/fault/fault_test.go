package fault_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tidemark.dev/internal/ground/fault"
)

func TestOriginIsTheFirstOneKnown(t *testing.T) {
	target := fault.New(fault.Target, "status %d", 500)
	tests := []struct {
		name string
		err  error
		want fault.Origin
	}{
		{"nil", nil, fault.Unknown},
		{"foreign error", io.EOF, fault.Unknown},
		{"new", target, fault.Target},
		{"through fmt", fmt.Errorf("op 7: %w", target), fault.Target},
		{"through a hint", fault.Hint(target, "restart it"), fault.Target},
		{"outermost wins", fault.Wrap(fault.Driver, target, "slot 3"), fault.Driver},
		{"unknown outside does not hide", fault.Wrap(fault.Unknown, target, "slot 3"), fault.Target},
		{"joined, first branch without", errors.Join(io.EOF, target), fault.Target},
		{"joined, first known", errors.Join(fault.New(fault.Network, "reset"), target), fault.Network},
		{"problems", fault.Problems{{Text: "x"}}, fault.Config},
		{"origin behind %w of New", fault.New(fault.Unknown, "a: %w", target), fault.Target},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := fault.OriginOf(tt.err); got != tt.want {
				t.Errorf("origin %v, want %v", got, tt.want)
			}
		})
	}
}

func TestOriginWords(t *testing.T) {
	want := []string{"unknown", "target", "network", "driver", "config", "unknown"}
	for i, w := range want {
		if got := fault.Origin(i).String(); got != w {
			t.Errorf("Origin(%d) = %q, want %q", i, got, w)
		}
	}
}

func TestWrapKeepsTheCause(t *testing.T) {
	if err := fault.Wrap(fault.Target, nil, "slot 3"); err != nil {
		t.Errorf("wrapping nil gave %v", err)
	}
	err := fault.Wrap(fault.Network, io.ErrUnexpectedEOF, "slot 3")
	if got, want := err.Error(), "slot 3: unexpected EOF"; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error("the cause is lost")
	}
	if got, want := fault.Wrap(fault.Network, io.EOF, "").Error(), "EOF"; got != want {
		t.Errorf("text without a prefix %q, want %q", got, want)
	}
	if !errors.Is(fault.New(fault.Driver, "open: %w", io.EOF), io.EOF) {
		t.Error("New lost the %w cause")
	}
}

func TestHintsComeOutermostFirstAndOnce(t *testing.T) {
	if fault.Hint(nil, "x") != nil {
		t.Error("a hint made an error out of nil")
	}
	err := fault.Hint(fault.New(fault.Driver, "too many open files"), "raise nofile")
	err = fault.Hint(fault.Wrap(fault.Driver, err, "agent 2"), "see inspect")
	err = fault.Hint(err, "raise nofile")
	if got, want := err.Error(), "agent 2: too many open files"; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
	if diff := cmp.Diff([]string{"raise nofile", "see inspect"}, fault.Hints(err)); diff != "" {
		t.Error(diff)
	}
	joined := errors.Join(fault.Hint(io.EOF, "a"), fault.Hint(io.EOF, "b"))
	if diff := cmp.Diff([]string{"a", "b"}, fault.Hints(joined)); diff != "" {
		t.Error(diff)
	}
	if got := fault.Hints(io.EOF); got != nil {
		t.Errorf("hints of a plain error: %q", got)
	}
}

func TestProblemPrintsWhatIsKnown(t *testing.T) {
	tests := []struct {
		p    fault.Problem
		want string
	}{
		{fault.Problem{File: "a.toml", Line: 3, Column: 7, Field: "mix.get", Text: "must be positive"}, "a.toml:3:7: mix.get: must be positive"},
		{fault.Problem{File: "a.toml", Line: 3, Text: "bad"}, "a.toml:3: bad"},
		{fault.Problem{File: "a.toml", Column: 7, Text: "bad"}, "a.toml: bad"},
		{fault.Problem{Line: 3, Column: 1, Text: "bad"}, "line 3:1: bad"},
		{fault.Problem{Field: "listen", Text: "bad"}, "listen: bad"},
		{fault.Problem{Text: "bad"}, "bad"},
	}
	for _, tt := range tests {
		if got := tt.p.String(); got != tt.want {
			t.Errorf("%+v prints %q, want %q", tt.p, got, tt.want)
		}
	}
}

func TestProblemsAreOneErrorOnlyWhenThereAreAny(t *testing.T) {
	var p fault.Problems
	if p.Err() != nil {
		t.Error("no problems, yet an error")
	}
	p.Add(fault.Problem{File: "a.toml", Line: 1}, "unknown key %q", "x")
	p.Add(fault.Problem{Field: "b"}, "missing")
	err := fmt.Errorf("check: %w", p.Err())
	if got, want := err.Error(), "check: a.toml:1: unknown key \"x\"\nb: missing"; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
	if diff := cmp.Diff(p, fault.AsProblems(err)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(fault.Problems{{Text: "EOF"}}, fault.AsProblems(io.EOF)); diff != "" {
		t.Error(diff)
	}
	if fault.AsProblems(nil) != nil {
		t.Error("problems of nil")
	}
}
