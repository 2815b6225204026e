package audit

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Checkpoint is the text of a checkpoint (C2SP tlog-checkpoint).
type Checkpoint struct {
	Origin     string
	Size       int64
	Root       Hash
	Extensions []string // the lines after the first three
}

// ParseCheckpoint parses the text of a checkpoint.
func ParseCheckpoint(text string) (c Checkpoint, err error) {
	lines := strings.Split(text, "\n")
	last := len(lines) - 1
	if last < 3 || lines[0] == "" || lines[last] != "" {
		return c, fmt.Errorf("%q is not origin, size and root", text)
	}
	if slices.Contains(lines[:last], "") {
		return c, fmt.Errorf("%q has an empty line", text)
	}
	c.Origin, c.Extensions = lines[0], lines[3:last]
	if c.Size, err = ParseSize(lines[1]); err == nil {
		c.Root, err = ParseHash(lines[2])
	}
	return c, err
}

// ParseSize parses a tree's size in decimal, without leading zeros.
func ParseSize(text string) (int64, error) {
	size, err := strconv.ParseInt(text, 10, 64)
	if err != nil || size < 0 || strconv.FormatInt(size, 10) != text {
		return 0, fmt.Errorf("%q is not the size of a tree", text)
	}
	return size, nil
}

// ParseHash parses a hash in base 64, which has one valid form.
func ParseHash(text string) (Hash, error) {
	hash, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(hash) != sha256.Size || base64.StdEncoding.EncodeToString(hash) != text {
		return Hash{}, fmt.Errorf("%q is not a hash in base 64", text)
	}
	return Hash(hash), nil
}

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
