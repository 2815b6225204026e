package audit_test

import (
	"strings"
	"testing"
	"time"

	"assay/host/audit"
	"assay/registry/expect"
)

var cut = audit.Anchor{Head: audit.Genesis(3).Next(audit.Leaf(nonce, record)), Before: time.Date(2030, 5, 1, 0, 0, 0, 0,
	time.UTC)}

func TestAnchorRoundTrip(t *testing.T) {
	t.Parallel()
	signed := expect.Value(signer.Anchor(cut))(t)
	if !strings.Contains(signed, "\npruned before 2030-05-01\n\n") {
		t.Errorf("signed text %q", signed)
	}
	if got, err := signer.OpenAnchor(signed); err != nil || got != cut {
		t.Errorf("opened as %+v, %v", got, err)
	}
	// An anchor proves as much about a chain as a checkpoint.
	if head, err := signer.OpenCheckpoint(signed); err != nil || head != cut.Head {
		t.Errorf("opened as a checkpoint: %+v, %v", head, err)
	}
	if got := audit.SplitCheckpoints(checkpoint(t, cut.Head) + "\n" + signed + "\n"); len(got) != 2 ||
		got[1] != signed {
		t.Errorf("a file of both is split into %q", got)
	}
}

// Checkpoints are public: none may serve as permission to prune.
func TestInvalidAnchors(t *testing.T) {
	t.Parallel()
	text, _, _ := strings.Cut(checkpoint(t, cut.Head), "\n\n")
	for name, signed := range map[string]string{
		"a checkpoint":    checkpoint(t, cut.Head),
		"another line":    signedText(t, text+"\nmore\n", signer),
		"no date":         signedText(t, text+"\npruned before \n", signer),
		"an invalid date": signedText(t, text+"\npruned before 2030-13-01\n", signer),
		"a time":          signedText(t, text+"\npruned before 2030-05-01T00:00:00Z\n", signer),
		"two lines":       signedText(t, text+"\npruned before 2030-05-01\npruned before 2030-05-01\n", signer),
		"of another key":  signedText(t, text+"\npruned before 2030-05-01\n", audit.NewSigner(origin, sequence(1, 32))),
		"of another name": signedText(t, text+"\npruned before 2030-05-01\n", audit.NewSigner("assay.example/other",
			sequence(0, 32))),
		"nothing": "",
	} {
		expect.Failure(t, expect.ErrorOf(signer.OpenAnchor(signed)), "%s: opens", name)
	}
}
