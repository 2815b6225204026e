package audit_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/host/audit"
	"assay/registry/expect"
)

func TestAcceptedLoss(t *testing.T) {
	t.Parallel()
	signer := audit.NewSigner(audit.KeyName, make([]byte, 32))
	nine := audit.Head{Chain: 3, Seq: 9, Hash: audit.Hash{1}}
	loss := audit.LossAcceptance{Chain: 3, At: time.Date(2031, 5, 20, 12, 0, 0, 0, time.UTC), Survived: 7,
		Lost: []audit.Head{nine, {Chain: 3, Seq: 11, Hash: audit.Hash{2}}}, Reason: "a failover lost 2 s: ticket 42"}
	signed := must(signer.AcceptLoss(loss))
	got, err := signer.OpenLoss(signed)
	diff := cmp.Diff(loss, got)
	expect.That(t, err == nil && diff == "", "%v (-want +got):\n%s", err, diff)
	other := make([]byte, 32)
	other[0] = 1
	for name, text := range map[string]string{
		"another number":   strings.Replace(signed, "lost 9", "lost 8", 1),
		"another reason":   strings.Replace(signed, "42", "43", 1),
		"another key":      must(audit.NewSigner(audit.KeyName, other).AcceptLoss(loss)),
		"an anchor":        must(signer.Anchor(audit.Anchor{Head: nine, Before: loss.At})),
		"nothing":          "",
		"no signature":     strings.SplitAfter(signed, "\n\n")[0],
		"cut off":          signed[:len(signed)-9],
		"a tree's of ours": must(signer.SignTree(audit.TreeHead{Chain: 3, Size: 9})),
	} {
		expect.Failure(t, expect.ErrorOf(signer.OpenLoss(text)), "%s is opened", name)
	}
	expect.Failure(t, expect.ErrorOf(signer.OpenAnchor(signed)), "the acceptance of a loss is opened as an anchor")
}

func TestReasonsForLosses(t *testing.T) {
	t.Parallel()
	for reason, ok := range map[string]bool{
		"Ausfall am Morgen, Störung 17": true, strings.Repeat("é", 500): true,
		"": false, " ": false, "two\nlines": false, "a\x00byte": false, "\xff": false, strings.Repeat("é", 501): false,
	} {
		err := audit.CheckReason(reason)
		expect.That(t, (err == nil) == ok, "%q: %v", reason, err)
	}
}
