package audit

import "strings"

// SplitCheckpoints splits a file of consecutive checkpoints and anchors.
func SplitCheckpoints(file string) []string {
	var all []string
	for _, block := range strings.SplitAfter(file, "\n\n") {
		// A note is text, an empty line and signatures, so a block that begins with a signature belongs to the
		// previous block.
		for strings.HasPrefix(block, "\u2014 ") && len(all) > 0 {
			line, rest, _ := strings.Cut(block, "\n")
			all[len(all)-1] += line + "\n"
			block = rest
		}
		if block = strings.TrimLeft(block, "\n"); strings.TrimSpace(block) != "" {
			all = append(all, block)
		}
	}
	return all
}
