package main

import _ "embed"

// reportedBlocks gives points to blocks of numbers that hold numbers which people reported for unwanted calls, each as
// "digits:points" with the calling code first, ended by one blank or line end, in the order of the digits. The command
// train counts them; the reports are Israel's and France's.
//
//go:embed reported.txt
var reportedBlocks string

// reported returns the block of numbers, a million or ten thousand large, that holds an E.164 number without "+" and
// has most reports for its size, with its points; "" for most numbers.
func reported(digits string) (block string, points int) {
	for _, free := range [...]int{6, 4} {
		if len(digits) < 4+free {
			continue
		}
		prefix := digits[:len(digits)-free]
		if p := pointsOf(prefix); p > points {
			block, points = prefix, p
		}
	}
	return block, points
}

// pointsOf halves the text until the block is found: the blocks are in the order of their digits.
func pointsOf(block string) int {
	for list := reportedBlocks; list != ""; {
		start := len(list) / 2 // walks back to where the word around the middle begins
		for start > 0 && list[start-1] > ' ' {
			start--
		}
		colon := start
		for colon < len(list) && list[colon] != ':' {
			colon++
		}
		points, end := 0, colon+1
		for ; end < len(list) && list[end] > ' '; end++ {
			points = points*10 + int(list[end]-'0')
		}
		switch at := list[start:colon]; {
		case at == block:
			return points
		case at < block:
			list = list[min(end+1, len(list)):]
		default:
			list = list[:start]
		}
	}
	return 0
}
