package main

import (
	"strings"
	"unicode/utf8"

	"assay/plugins/internal/quote"
	"assay/plugins/lexical/ngram"
)

const (
	maxSpans = 3  // that one signal names
	shortest = 3  // characters of a span worth naming
	reach    = 3  // bytes by which a span may grow to the end of a word
	maxBytes = 64 // of what a span is sought in
)

// telling returns the parts of s that raised the score most, at most maxSpans, from left to right.
func telling(s string, part ngram.Part, features []ngram.Feature, weights []float32) []string {
	var moved [maxBytes]float32 // by each byte of s: a feature's weight is spread over the bytes it was read from
	n := min(len(s), len(moved))
	var raised float32
	for i := range features {
		f := &features[i]
		if f.Part != part || f.End <= f.Start {
			continue
		}
		w := weights[i]
		raised += max(w, 0)
		for at := int(f.Start); at < min(int(f.End), n); at++ {
			moved[at] += w / float32(f.End-f.Start)
		}
	}
	type span struct{ start, end int }
	var found [maxSpans]span
	count := 0
	var first float32
	for count < maxSpans {
		start, end, sum := heaviest(moved[:n])
		if sum <= 0 || sum < first/4 {
			break
		}
		first = max(first, sum)
		start, end = whole(s[:n], start, end)
		for at := start; at < end; at++ {
			moved[at] = -raised - 1 // no later span crosses it
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
	spans := make([]string, count)
	for i := range spans {
		spans[i] = quote.Of(s[found[i].start:found[i].end])
	}
	return spans
}

// heaviest returns the run of bytes that moved the score most together, not empty when sum is above 0.
func heaviest(moved []float32) (start, end int, sum float32) {
	var now float32
	from := 0
	for i := range moved {
		if now <= 0 {
			now, from = 0, i
		}
		now += moved[i]
		if now > sum {
			start, end, sum = from, i+1, now
		}
	}
	return start, end, sum
}

// whole lets a run of s grow to whole characters, and to the ends of the words that it begins and ends in if they are
// near.
func whole(s string, start, end int) (int, int) {
	for start > 0 && !utf8.RuneStart(s[start]) {
		start--
	}
	for end < len(s) && !utf8.RuneStart(s[end]) {
		end++
	}
	for at := start; at >= 0 && start-at <= reach; at-- {
		if at == 0 || strings.IndexByte("-.", s[at-1]) >= 0 {
			start = at
			break
		}
	}
	for at := end; at <= len(s) && at-end <= reach; at++ {
		if at == len(s) || strings.IndexByte("-.", s[at]) >= 0 {
			end = at
			break
		}
	}
	return start, end
}

// trim takes hyphens and dots off the ends of a run of s.
func trim(s string, start, end int) (int, int) {
	for start < end && strings.IndexByte("-.", s[start]) >= 0 {
		start++
	}
	for start < end && strings.IndexByte("-.", s[end-1]) >= 0 {
		end--
	}
	return start, end
}
