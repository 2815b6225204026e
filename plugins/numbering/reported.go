package main

import _ "embed"

// reportedBlocks lists the points of blocks of numbers from which people reported unwanted calls in Israel and France.
// Each entry is "digits:points" with the calling code first and ends with one space or line end; entries are sorted by
// digits. plugins/internal/train/phone writes the file.
//
//go:embed reported.txt
var reportedBlocks string

// reportedBlock returns the block of a million or ten thousand numbers that contains digits, an E.164 number without
// "+", and its points. It prefers the block with more points and returns "" if neither is listed.
func reportedBlock(digits string) (block string, points int) {
	for _, free := range [...]int{6, 4} {
		if len(digits) < 4+free {
			continue
		}
		prefix := digits[:len(digits)-free]
		if p := blockPoints(prefix); p > points {
			block, points = prefix, p
		}
	}
	return block, points
}

// blockPoints returns the points of a block by binary search, or 0.
func blockPoints(block string) int {
	for list := reportedBlocks; list != ""; {
		start := len(list) / 2 // moves back to the start of the entry in the middle
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
