// Package wordlist looks words up in sorted text. Tables of guests are text rather than maps, so that a fresh instance
// has nothing to build, and nothing to restore before it is used again.
package wordlist

// Has reports whether list contains word, by binary search. The words of list are unique and sorted by bytes, contain
// no byte up to ' ', and each ends with one space or newline.
func Has(list, word string) bool {
	for low, high := 0, len(list); low < high; {
		middle := (low + high) / 2 // moves back to the start of the word
		for middle > low && list[middle-1] > ' ' {
			middle--
		}
		end, i := middle, 0
		for end < len(list) && list[end] > ' ' && i < len(word) && list[end] == word[i] {
			end, i = end+1, i+1
		}
		ends := end == len(list) || list[end] <= ' '
		switch {
		case i == len(word) && ends:
			return i > 0
		case i < len(word) && (ends || list[end] < word[i]):
			for end < len(list) && list[end] > ' ' {
				end++
			}
			low = end + 1
		default:
			high = middle
		}
	}
	return false
}

// Fault returns, with "?" appended, the first word of list that is out of order, repeated or not ended properly. It
// returns "" if Has can search list. Tests check their tables with it.
func Fault(list string) string {
	last := ""
	for list != "" {
		end := 0
		for end < len(list) && list[end] > ' ' {
			end++
		}
		word := list[:end]
		if word <= last || end == len(list) || list[end] != ' ' && list[end] != '\n' {
			return word + "?"
		}
		last, list = word, list[end+1:]
	}
	return ""
}
