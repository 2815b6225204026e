package audit_test

import (
	"strings"
	"testing"
	"time"

	"assay/host/audit"
)

var cut = audit.Anchor{Head: audit.Genesis(3).Next(audit.Leaf(nonce, record)), Before: time.Date(2030, 5, 1, 0, 0, 0, 0,
	time.UTC)}

func TestAnchorRoundTrip(t *testing.T) {
	t.Parallel()
	signed, err := signer.Anchor(cut)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(signed, "\npruned before 2030-05-01\n\n") {
		t.Errorf("it reads %q", signed)
	}
	if got, err := audit.OpenAnchor(signed, signer.VerifierKey()); err != nil || got != cut {
		t.Errorf("it opens as %+v, %v", got, err)
	}
	// What was pruned was there: an anchor says as much of a chain as a checkpoint does.
	if head, err := audit.OpenCheckpoint(signed, signer.VerifierKey()); err != nil || head != cut.Head {
		t.Errorf("as a checkpoint it opens as %+v, %v", head, err)
	}
	if got := audit.SplitCheckpoints(checkpoint(t, cut.Head) + "\n" + signed + "\n"); len(got) != 2 ||
		got[1] != signed {
		t.Errorf("a file of both splits into %q", got)
	}
}

// Checkpoints are no secret: none may serve to cut what stands before it.
func TestWhatIsNoAnchor(t *testing.T) {
	t.Parallel()
	text, _, _ := strings.Cut(checkpoint(t, cut.Head), "\n\n")
	for name, signed := range map[string]string{
		"a checkpoint":        checkpoint(t, cut.Head),
		"another line":        signedText(t, text+"\nmore\n", signer),
		"no date":             signedText(t, text+"\npruned before \n", signer),
		"a date that is none": signedText(t, text+"\npruned before 2030-13-01\n", signer),
		"a time":              signedText(t, text+"\npruned before 2030-05-01T00:00:00Z\n", signer),
		"two lines":           signedText(t, text+"\npruned before 2030-05-01\npruned before 2030-05-01\n", signer),
		"of another key": signedText(t, text+"\npruned before 2030-05-01\n",
			audit.NewSigner(origin, sequence(1, 32))),
		"of another name": signedText(t, text+"\npruned before 2030-05-01\n", audit.NewSigner("assay.example/other",
			sequence(0, 32))),
		"nothing": "",
	} {
		if got, err := audit.OpenAnchor(signed, signer.VerifierKey()); err == nil {
			t.Errorf("%s: opens as %+v", name, got)
		}
	}
}
