package reputation

// pattern is a form prepared for many comparisons.
type pattern struct {
	text form
	at   [256]uint64 // for each byte value, a bit mask of its positions in text
}

func newPattern(f form) *pattern {
	p := &pattern{text: f}
	for i := range len(f) {
		p.at[f[i]] |= 1 << i
	}
	return p
}

// distance returns the Levenshtein distance between the pattern and text, or limit+1 if it exceeds limit. Both must be
// at most 64 bytes long. The algorithm is G. Myers, "A fast bit-vector algorithm for approximate string matching based
// on dynamic programming", JACM 46(3), 1999, in H. Hyyrö's variant for whole strings, 2003.
func (p *pattern) distance(text []byte, limit int) int {
	if len(p.text) == 0 {
		return min(len(text), limit+1)
	}
	positive, negative := ^uint64(0), uint64(0)
	last := uint64(1) << (len(p.text) - 1)
	d := len(p.text)
	for i, c := range text {
		equal := p.at[c]
		x := equal | negative
		equal |= (equal&positive + positive) ^ positive
		up := negative | ^(equal | positive)
		down := positive & equal
		if up&last != 0 {
			d++
		} else if down&last != 0 {
			d--
		}
		if d > limit+len(text)-1-i {
			return limit + 1 // each remaining letter lowers the distance by at most 1
		}
		up = up<<1 | 1
		positive = down<<1 | ^(x | up)
		negative = up & x
	}
	return min(d, limit+1)
}
