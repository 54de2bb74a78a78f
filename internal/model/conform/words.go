package conform

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// plural writes a count with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Count(n) + " " + noun + "s"
}

func times(n uint64) string {
	if n == 1 {
		return "once"
	}
	return Count(int(n)) + " times"
}

// Count writes a whole number with commas between thousands.
func Count(n int) string {
	s := strconv.Itoa(n)
	first := 1
	if n < 0 {
		first = 2
	}
	for i := len(s) - 3; i >= first; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// percent writes with one decimal as the result pages do, and with more where one would show the limit itself:
// 98.97 is not "99.0 %".
func percent(p float64) string {
	for digits := 1; digits < 4; digits++ {
		s := strconv.FormatFloat(p, 'f', digits, 64)
		if shown, _ := strconv.ParseFloat(s, 64); math.Abs(shown-p) < 1e-9 || shown != math.Round(shown) {
			return strings.TrimSuffix(s, ".0") + " %"
		}
	}
	return strconv.FormatFloat(p, 'f', 4, 64) + " %"
}

// listSlots names the first few of many.
func listSlots(slots []int) string {
	const few = 5
	var b strings.Builder
	b.WriteString("slot ")
	if len(slots) > 1 {
		b.Reset()
		b.WriteString("slots ")
	}
	for i, s := range slots[:min(few, len(slots))] {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(strconv.Itoa(s))
	}
	if len(slots) > few {
		b.WriteString(" ...")
	}
	return b.String()
}

// listCounts writes counts by name, in order of name.
func listCounts(m map[string]uint64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if m[name] > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", name, Count(int(m[name]))))
		}
	}
	return strings.Join(parts, ", ")
}
