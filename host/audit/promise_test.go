package audit_test

import (
	"strings"
	"testing"
	"time"

	"assay/host/audit"
	"assay/registry/expect"
)

func TestPromises(t *testing.T) {
	t.Parallel()
	promise := audit.Promise{Chain: 2, Index: 7, Leaf: leaf(1), Until: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	signed := must(signer.SignPromise(promise))
	got, err := signer.OpenPromise(signed)
	expect.That(t, err == nil && got == promise, "opened as %+v, %v", got, err)
	tree := must(signer.SignTree(audit.TreeHead{Chain: 2, Size: 7, Root: leaf(1)}))
	for name, text := range map[string]string{
		"another index":   strings.Replace(signed, "\n7\n", "\n8\n", 1),
		"another chain":   strings.ReplaceAll(signed, "/chain/2", "/chain/3"),
		"another version": strings.Replace(signed, "version 1", "version 2", 1),
		"a checkpoint":    tree,
		"cut off":         signed[:len(signed)/2],
		"nothing":         "",
	} {
		expect.Failure(t, expect.ErrorOf(signer.OpenPromise(text)), "%s: opens", name)
	}
	expect.Failure(t, expect.ErrorOf(signer.OpenTree(signed)), "a promise opens as a checkpoint")
}
