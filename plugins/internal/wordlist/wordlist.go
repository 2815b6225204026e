// Package wordlist looks words up in sorted text. A guest's tables are text and not maps so that a fresh instance has
// nothing to build and its pages nothing to restore.
package wordlist

// Has says whether word is one of list's: words sorted by bytes, unique, each ended by one blank or line end. A word
// holds no byte up to the blank. It takes O(log len(list)) comparisons.
func Has(list, word string) bool {
	for list != "" {
		middle := len(list) / 2 // walks back to where the word around the middle begins
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

// Fault returns the first word of list that is out of order, repeated or wrongly ended, or "" when Has can search list.
// Tests hold their tables to it.
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
