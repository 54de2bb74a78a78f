package run

import (
	"sort"
	"strings"
	"time"

	"tidemark.dev/internal/ground/fault"
)

// Profile fixes how long a run looks and how closely it searches.
type Profile struct {
	Name string
	// Dirs is the number of directories of the file set, 0 for the workload's own law of the load.
	Dirs int
	// Fetch bounds the first part of the warm-up, which fetches every file once; WarmUp is its second, paced part.
	Fetch, WarmUp time.Duration
	// Burst is the length of the unpaced probe that gives the search its first guess.
	Burst time.Duration
	// Ramp is how many slots a second an agent starts.
	Ramp int
	// Trial is the window of a trial and TrialSettle the paced time before it.
	Trial, TrialSettle time.Duration
	// Window is the window of a proof, RampUp the paced time before it and RampDown after it.
	Window, RampUp, RampDown time.Duration
	// Fail is the window of the iteration that must fail.
	Fail time.Duration
	// Width is the relative width of the search, MaxTrials bounds its trials. Resumes is how often a passing
	// fail-proof sends the search upward again, negative for never.
	Width              float64
	MaxTrials, Resumes int
	// Estimate marks results that are no more than that.
	Estimate bool
}

// profiles by name. The full profile has the published lengths of the retired benchmark (web99 facts, section 5.3,
// remembered and supported by the published pages); quick and standard are ours.
func profiles() map[string]Profile {
	return map[string]Profile{
		"quick": {
			Name: "quick", Dirs: 20, Fetch: 10 * time.Second, Burst: 2 * time.Second,
			Ramp: 2000, Trial: 3 * time.Second, TrialSettle: 750 * time.Millisecond,
			Window: 8 * time.Second, RampUp: time.Second, Fail: 5 * time.Second,
			Width: 0.05, MaxTrials: 3, Resumes: -1, Estimate: true,
		},
		"standard": {
			Name: "standard", Fetch: 5 * time.Minute, WarmUp: 30 * time.Second, Burst: 5 * time.Second,
			Ramp: 1000, Trial: 20 * time.Second, TrialSettle: 5 * time.Second,
			Window: 60 * time.Second, RampUp: 10 * time.Second, Fail: 60 * time.Second,
			Width: 0.02, MaxTrials: 20, Resumes: 2,
		},
		"full": {
			Name: "full", Fetch: 20 * time.Minute, WarmUp: 1200 * time.Second, Burst: 10 * time.Second,
			Ramp: 1000, Trial: 120 * time.Second, TrialSettle: 30 * time.Second,
			Window: 1200 * time.Second, RampUp: 300 * time.Second, RampDown: 300 * time.Second, Fail: 1200 * time.Second,
			Width: 0.02, MaxTrials: 20, Resumes: 2,
		},
	}
}

// ProfileNamed returns a profile by name.
func ProfileNamed(name string) (Profile, error) {
	p, ok := profiles()[name]
	if !ok {
		return p, fault.New(fault.Config, "no profile is called %q (there are: %s)", name, strings.Join(ProfileNames(), ", "))
	}
	return p, nil
}

// ProfileNames lists the profiles, shortest first.
func ProfileNames() []string {
	var names []string
	all := profiles()
	for n := range all {
		names = append(names, n)
	}
	sort.Slice(names, func(i, j int) bool { return all[names[i]].Window < all[names[j]].Window })
	return names
}
