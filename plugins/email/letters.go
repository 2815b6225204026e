package main

// letters is the set of letters a to z in a text, one bit each. It rules out most words without a search.
type letters uint32

func letterSet(text string) letters {
	var set letters
	for i := range len(text) {
		if c := text[i] - 'a'; c < 26 {
			set |= 1 << c
		}
	}
	return set
}

// spell reports whether the set holds every letter a to z of word.
func (set letters) spell(word string) bool {
	for i := range len(word) {
		if c := word[i] - 'a'; c < 26 && set&(1<<c) == 0 {
			return false
		}
	}
	return true
}
