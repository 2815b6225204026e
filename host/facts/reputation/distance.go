package reputation

// pattern is a form prepared for many comparisons.
type pattern struct {
	text form
	at   [256]uint64 // for each byte, the positions that hold it
}

func newPattern(f form) *pattern {
	p := &pattern{text: f}
	for i := range len(f) {
		p.at[f[i]] |= 1 << i
	}
	return p
}

// distance is the Levenshtein distance between the pattern and text, or most+1 when it is more than most. (G. Myers, "A
// fast bit-vector algorithm for approximate string matching based on dynamic programming", JACM 46(3), 1999, in the
// form for whole strings of H. Hyyrö, 2003.) Both are at most 64 bytes long.
func (p *pattern) distance(text []byte, most int) int {
	if len(p.text) == 0 {
		return min(len(text), most+1)
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
		if d > most+len(text)-1-i {
			return most + 1 // each letter that is left can take back one at most
		}
		up = up<<1 | 1
		positive = down<<1 | ^(x | up)
		negative = up & x
	}
	return min(d, most+1)
}
