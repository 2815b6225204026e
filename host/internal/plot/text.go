package plot

import (
	"fmt"
	"math"
	"strings"
)

// Thousands separates the thousands of a number in digits with commas.
func Thousands(digits string) string {
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// Pair is a labelled count before and after a change.
type Pair struct {
	Label         string
	Before, After int
}

// barWidth is the length of the longest bar of Bars, in characters.
const barWidth = 24

// Bars draws pairs of counts for a terminal: a line each, with two bars next to each other. The length of a bar is
// logarithmic, so that a few values can be seen next to many. Empty pairs at the beginning and the end are left out.
func Bars(pairs []Pair) string {
	for len(pairs) > 0 && pairs[0].Before+pairs[0].After == 0 {
		pairs = pairs[1:]
	}
	for len(pairs) > 0 && pairs[len(pairs)-1].Before+pairs[len(pairs)-1].After == 0 {
		pairs = pairs[:len(pairs)-1]
	}
	most, label, digits := 1, 0, len("before")
	for _, p := range pairs {
		most, label = max(most, p.Before, p.After), max(label, len(p.Label))
		digits = max(digits, len(fmt.Sprint(p.Before)), len(fmt.Sprint(p.After)))
	}
	bar := func(n int) string {
		length := int(math.Round(barWidth * math.Log1p(float64(n)) / math.Log1p(float64(most))))
		if n > 0 {
			length = max(length, 1)
		}
		return strings.Repeat("█", length) + strings.Repeat(" ", barWidth-length)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%*s  %*s %*s  %*s\n", label, "", digits, "before", barWidth, "", digits, "after")
	for _, p := range pairs {
		line := fmt.Sprintf("%*s  %*d %s  %*d %s", label, p.Label, digits, p.Before, bar(p.Before), digits, p.After,
			bar(p.After))
		fmt.Fprintln(&b, strings.TrimRight(line, " "))
	}
	return b.String()
}
