package main

import "strings"

// keys holds the place of each letter a to z on a QWERTY keyboard: ten times its row plus its column.
const keys = "\x0a\x18\x16\x0c\x02\x0d\x0e\x0f\x07\x10\x11\x12\x1a" + // a to m
	"\x19\x08\x09\x00\x03\x0b\x04\x06\x17\x01\x15\x05\x14" // n to z

// minWalk is the least number of letters in walks. Few ordinary words have as many.
const minWalk = 5

// runsAlongKeyboard reports whether a local part without separators consists of walks along rows of a keyboard: at
// least three quarters of its letters are in runs of three or more neighbouring keys in one direction.
func runsAlongKeyboard(joined string) bool {
	letters, walked, run, direction := 0, 0, 1, 0
	last := -1
	for i := range len(joined) {
		key := -1
		if c := joined[i] - 'a'; c < 26 {
			key = int(keys[c])
			letters++
		}
		step := key - last
		switch {
		case key < 0, last < 0, step != 1 && step != -1, key/10 != last/10:
			run, direction = 1, 0
		case step != direction:
			run, direction = 2, step
		default:
			run++
		}
		if run == 3 {
			walked += 3
		} else if run > 3 {
			walked++
		}
		last = key
	}
	return walked >= minWalk && walked*4 >= letters*3
}

// medicines are drugs that spam sells. Longer words contain "cialis" (specialist) and "ambien" (ambiente), so these
// count only as whole words.
var medicines = [...]string{
	"viagra", "levitra", "kamagra", "sildenafil", "tadalafil", "xanax", "tramadol", "valium", "phentermine",
	"adderall", "oxycodone", "oxycontin", "modafinil", "ivermectin",
}

// advertisesMedicine reports whether a local part names a drug that spam sells. joined is local without separators.
func advertisesMedicine(local, joined string) bool {
	present := letterSet(joined)
	for _, name := range medicines {
		if present.spell(name) && strings.Contains(joined, name) {
			return true
		}
	}
	return hasWord(local, "cialis") || hasWord(local, "ambien")
}
