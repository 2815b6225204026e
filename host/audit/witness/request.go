package witness

import (
	"encoding/base64"
	"fmt"
	"strings"

	"assay/host/audit"
)

// maxProof is the maximum number of hashes in a proof that a witness must accept.
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
	old, err := audit.ParseSize(number)
	if err != nil {
		return Request{}, fmt.Errorf("parsing request: %w", err)
	}
	if len(lines)-1 > maxProof {
		return Request{}, fmt.Errorf("parsing request: a proof has at most %d hashes", maxProof)
	}
	r := Request{Old: old, Checkpoint: checkpoint}
	for _, line := range lines[1:] {
		hash, err := audit.ParseHash(line)
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
	c, err := audit.ParseCheckpoint(text)
	return c.Origin, audit.TreeHead{Size: c.Size, Root: c.Root}, err
}
