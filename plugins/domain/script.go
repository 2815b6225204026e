package main

import (
	"math/bits"
	"unicode/utf8"
)

// scriptSet is a set of scripts and of the writing systems that join some: bit i stands for scriptNames[i] (UTS 39,
// section 5.1, augmented script sets).
type scriptSet uint64

// anyScript is the set of a character that all scripts share, such as a digit or a hyphen.
const anyScript = ^scriptSet(0)

// shapely are the scripts with many letters that look like those of another one of them.
const lookalikeScripts = scriptLatin | scriptCyrillic | scriptGreek | scriptArmenian | scriptCherokee | scriptCoptic | scriptDeseret |
	scriptLisu | scriptTifinagh

// scriptsOf returns the scripts that r is used in.
func scriptsOf(r rune) scriptSet {
	if r < utf8.RuneSelf {
		if c := byte(r) | 0x20; c >= 'a' && c <= 'z' {
			return scriptLatin
		}
		return anyScript
	}
	_, entry := findRecord(scriptRanges, r)
	if set := scriptSets[entry[0]-'!']; set != 0 {
		return set
	}
	return anyScript
}

// name is that of the first script of s.
func (s scriptSet) name() string {
	return scriptNames[min(bits.TrailingZeros64(uint64(s)), len(scriptNames)-1)]
}
