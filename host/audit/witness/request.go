package witness

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"assay/host/audit"
)

// maxProof is the most hashes in a proof that a witness must accept.
const maxProof = 63

// Request is the content of a call of add-checkpoint.
type Request struct {
	Old        int64        // size of the tree that the witness cosigned last; 0 if none
	Proof      []audit.Hash // that this tree is the beginning of the checkpoint's; at most 63
	Checkpoint string       // signed note
}

// ParseRequest parses the body of a call of add-checkpoint. The checkpoint is not parsed.
func ParseRequest(body string) (Request, error) {
	head, checkpoint, ok := strings.Cut(body, "\n\n")
	lines := strings.Split(head, "\n")
	number, isOld := strings.CutPrefix(lines[0], "old ")
	if !ok || !isOld || checkpoint == "" {
		return Request{}, fmt.Errorf("parsing request: not an old size, a proof and a checkpoint")
	}
	old, err := parseSize(number)
	if err != nil {
		return Request{}, fmt.Errorf("parsing request: %w", err)
	}
	if len(lines)-1 > maxProof {
		return Request{}, fmt.Errorf("parsing request: a proof has at most %d hashes", maxProof)
	}
	r := Request{Old: old, Checkpoint: checkpoint}
	for _, line := range lines[1:] {
		hash, err := parseHash(line)
		if err != nil {
			return Request{}, fmt.Errorf("parsing request: %w", err)
		}
		r.Proof = append(r.Proof, hash)
	}
	return r, nil
}

// String returns the body of a call of add-checkpoint.
func (r Request) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "old %d\n", r.Old)
	for _, hash := range r.Proof {
		b.WriteString(base64.StdEncoding.EncodeToString(hash[:]) + "\n")
	}
	return b.String() + "\n" + r.Checkpoint
}

// parseHead parses the text of a checkpoint (C2SP tlog-checkpoint). Extension lines may follow its three lines.
func parseHead(text string) (origin string, head audit.TreeHead, err error) {
	lines := strings.Split(text, "\n")
	if len(lines) < 4 || lines[0] == "" || lines[len(lines)-1] != "" {
		return "", audit.TreeHead{}, fmt.Errorf("%q is not origin, size and root", text)
	}
	for _, extension := range lines[3 : len(lines)-1] {
		if extension == "" {
			return "", audit.TreeHead{}, fmt.Errorf("%q has an empty line", text)
		}
	}
	if head.Size, err = parseSize(lines[1]); err == nil {
		head.Root, err = parseHash(lines[2])
	}
	return lines[0], head, err
}

// parseSize parses a tree's size in decimal, without leading zeros.
func parseSize(text string) (int64, error) {
	size, err := strconv.ParseInt(text, 10, 64)
	if err != nil || size < 0 || strconv.FormatInt(size, 10) != text {
		return 0, fmt.Errorf("%q is not the size of a tree", text)
	}
	return size, nil
}

func parseHash(text string) (audit.Hash, error) {
	hash, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(hash) != sha256.Size || base64.StdEncoding.EncodeToString(hash) != text {
		return audit.Hash{}, fmt.Errorf("%q is not a hash in base 64", text)
	}
	return audit.Hash(hash), nil
}
