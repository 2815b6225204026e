// Package suggest guesses which word a misspelt one was meant to be.
package suggest

// Word returns the end of an error's text that names the known word that was probably meant, or "". It suggests nothing
// for a known word, which is only in the wrong place.
func Word[T ~string](word string, known []T) string {
	best, least := "", max(3, len(word)/3)
	for _, k := range known {
		if d := EditDistance(word, string(k)); 0 < d && d < least {
			best, least = string(k), d
		}
	}
	if best == "" {
		return ""
	}
	return ": is it " + best + "?"
}

// EditDistance returns how many letters must be inserted, removed or replaced to turn a into b.
func EditDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
