// Package wordlist looks words up in sorted text. Tables of guests are text rather than maps, so that a fresh instance
// has nothing to build, and nothing to restore before it is used again.
package wordlist

// Has reports whether list contains word, by binary search. The words of list are unique and sorted by bytes, contain
// no byte up to ' ', and each ends with one space or newline.
func Has(list, word string) bool {
	for list != "" {
		middle := len(list) / 2 // moves back to the start of the word
		for middle > 0 && list[middle-1] > ' ' {
			middle--
		}
		end := middle
		for end < len(list) && list[end] > ' ' {
			end++
		}
		switch at := list[middle:end]; {
		case at == word:
			return word != ""
		case at < word:
			list = list[min(end+1, len(list)):]
		default:
			list = list[:middle]
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
