package main

import (
	"unicode/utf8"
)

const (
	maxSpans = 2 // spans that one signal quotes
	shortest = 3 // characters of a span worth quoting
	maxGrow  = 3 // bytes by which a span may grow to reach the end of a word
)

// strongest adds quotations of the spans of s with the largest sums of weights, at most most, from left to right, and
// reports whether there are any. weights holds one for each byte of s; strongest overwrites them.
func (p *pieces) strongest(s string, weights []int32, most int) bool {
	n := min(len(s), len(weights))
	weights = weights[:n]
	type span struct{ start, end int }
	var found [maxSpans]span
	count := 0
	var first int32
	for tries := 0; tries < 2*maxSpans && count < most; tries++ {
		start, end, sum := heaviest(weights)
		if sum <= 0 || sum < first/4 {
			break
		}
		first = max(first, sum)
		start, end = growToWords(s[:n], start, end)
		for at := start; at < end; at++ {
			weights[at] = -1 << 24 // no later span can include these bytes
		}
		start, end = trim(s, start, end)
		if utf8.RuneCountInString(s[start:end]) < shortest {
			continue
		}
		at := count
		for ; at > 0 && found[at-1].start > start; at-- {
			found[at] = found[at-1]
		}
		found[at] = span{start, end}
		count++
	}
	for i, f := range found[:count] {
		if i > 0 {
			p.add(", ")
		}
		p.quote(s[f.start:f.end])
	}
	return count > 0
}

// heaviest returns the run of bytes with the largest sum of weights. sum is 0 if no run has a positive one.
func heaviest(weights []int32) (start, end int, sum int32) {
	var now int32
	from := 0
	for i, w := range weights {
		if now <= 0 {
			now, from = 0, i
		}
		if now += w; now > sum {
			start, end, sum = from, i+1, now
		}
	}
	return start, end, sum
}

// growToWords extends a run of s to whole characters, and to the nearest ends of words that are at most maxGrow bytes
// away.
func growToWords(s string, start, end int) (int, int) {
	for start > 0 && !utf8.RuneStart(s[start]) {
		start--
	}
	for end < len(s) && !utf8.RuneStart(s[end]) {
		end++
	}
	for at := start; at >= 0 && start-at <= maxGrow; at-- {
		if at == 0 || separates(s[at-1]) {
			start = at
			break
		}
	}
	for at := end; at <= len(s) && at-end <= maxGrow; at++ {
		if at == len(s) || separates(s[at]) {
			end = at
			break
		}
	}
	return start, end
}

// trim removes hyphens and dots from the ends of a run of s.
func trim(s string, start, end int) (int, int) {
	for start < end && separates(s[start]) {
		start++
	}
	for start < end && separates(s[end-1]) {
		end--
	}
	return start, end
}

// separates reports whether c separates words.
func separates(c byte) bool { return c == '-' || c == '.' }
