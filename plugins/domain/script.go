package main

import (
	"math/bits"
	"unicode/utf8"
)

// scriptSet is a set of scripts and of the writing systems that combine scripts, such as Japanese: bit i represents
// scriptNames[i] (UTS 39, section 5.1, augmented script sets).
type scriptSet uint64

// anyScript is the set for a character that all scripts share, such as a digit or a hyphen.
const anyScript = ^scriptSet(0)

// lookalikeScripts are scripts that share many letter shapes with each other.
const lookalikeScripts = scriptLatin | scriptCyrillic | scriptGreek | scriptArmenian | scriptCherokee | scriptCoptic |
	scriptDeseret | scriptLisu | scriptTifinagh

// scriptsOf returns the scripts that use r.
func scriptsOf(r rune) scriptSet {
	if r < utf8.RuneSelf {
		if c := byte(r) | 0x20; c >= 'a' && c <= 'z' {
			return scriptLatin
		}
		return anyScript
	}
	_, entry := findRecord(scriptRanges, r)
	if entry == "" {
		return anyScript // a control character before the first record
	}
	if set := scriptSets[entry[0]-'!']; set != 0 {
		return set
	}
	return anyScript
}

// name returns the name of the first script in s.
func (s scriptSet) name() string {
	return scriptNames[min(bits.TrailingZeros64(uint64(s)), len(scriptNames)-1)]
}
