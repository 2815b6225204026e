package mail

import "strings"

// rare holds, for each first letter a to z, the second letters that follow it in fewer than one of 10,000 pairs in the
// names of honest sites. plugins/internal/train/email counts them.
var rare = [26]uint32{
	0x0000000, 0x2e10400, 0x0a10200, 0x0010000, 0x0000000, 0x2e12640, 0x0a10200, 0x2a10200, 0x0000000,
	0x3eb9ee2, 0x2810200, 0x0810200, 0x2a10200, 0x0000000, 0x0010000, 0x2a10200, 0x3effeff, 0x0010000,
	0x0800000, 0x0010000, 0x0010000, 0x2e106e2, 0x2a10640, 0x2430640, 0x1810200, 0x0e39664,
}

// RarePairs returns the number of rare pairs of letters in a lower-case text.
func RarePairs(local string) (n int) {
	for i := 1; i < len(local); i++ {
		first, second := local[i-1]-'a', local[i]-'a'
		if first < 26 && second < 26 && rare[first]&(1<<second) != 0 {
			n++
		}
	}
	return n
}

// IsRandom reports whether a local part is random letters, or random letters and a long number, as in mailboxes that
// programs open. People use shorter numbers, or letter pairs that occur in words.
func IsRandom(local string) bool {
	letters := strings.TrimRight(local, "0123456789")
	for i := range len(letters) {
		if c := letters[i] - 'a'; c >= 26 {
			return false
		}
	}
	pairs := RarePairs(letters)
	return pairs >= 3 && len(local)-len(letters) >= 5 || pairs >= 4 && len(letters) >= 8
}
