package main

import (
	"strings"
	"unicode/utf8"

	"assay/plugins/internal/quote"
	"assay/plugins/lexical/ngram"
)

const (
	maxSpans = 3  // spans that one signal quotes
	shortest = 3  // characters of a span worth quoting
	maxGrow  = 3  // bytes by which a span may grow to reach the end of a word
	maxBytes = 64 // bytes of a text in which spans are looked for
)

// strongest returns the spans of s that raised the score most, at most maxSpans, from left to right. part selects the
// features that were read from s.
func strongest(s string, part ngram.Part, features []ngram.Feature, weights []float32) []string {
	var byteWeights [maxBytes]float32 // each feature's weight, spread evenly over the bytes that it was read from
	n := min(len(s), len(byteWeights))
	var raised float32
	for i := range features {
		f := &features[i]
		if f.Part != part || f.End <= f.Start {
			continue
		}
		w := weights[i]
		raised += max(w, 0)
		for at := int(f.Start); at < min(int(f.End), n); at++ {
			byteWeights[at] += w / float32(f.End-f.Start)
		}
	}
	type span struct{ start, end int }
	var found [maxSpans]span
	count := 0
	var first float32
	for count < maxSpans {
		start, end, sum := heaviest(byteWeights[:n])
		if sum <= 0 || sum < first/4 {
			break
		}
		first = max(first, sum)
		start, end = growToWords(s[:n], start, end)
		for at := start; at < end; at++ {
			byteWeights[at] = -raised - 1 // no later span can include these bytes
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

// heaviest returns the run of bytes with the largest sum of weights. sum is 0 if no run has a positive one.
func heaviest(byteWeights []float32) (start, end int, sum float32) {
	var now float32
	from := 0
	for i := range byteWeights {
		if now <= 0 {
			now, from = 0, i
		}
		now += byteWeights[i]
		if now > sum {
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
		if at == 0 || strings.IndexByte("-.", s[at-1]) >= 0 {
			start = at
			break
		}
	}
	for at := end; at <= len(s) && at-end <= maxGrow; at++ {
		if at == len(s) || strings.IndexByte("-.", s[at]) >= 0 {
			end = at
			break
		}
	}
	return start, end
}

// trim removes hyphens and dots from the ends of a run of s.
func trim(s string, start, end int) (int, int) {
	for start < end && strings.IndexByte("-.", s[start]) >= 0 {
		start++
	}
	for start < end && strings.IndexByte("-.", s[end-1]) >= 0 {
		end--
	}
	return start, end
}
