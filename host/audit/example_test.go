package audit_test

import (
	"bytes"
	"fmt"

	"assay/host/audit"
)

// A verifier accepts a chain as it was written, and reports where it was changed.
func Example() {
	signer := audit.NewSigner("assay.example/audit", make([]byte, 32))
	head := audit.Genesis(0)
	var rows []audit.Row
	for i, verdict := range []string{"allow", "block", "review"} {
		nonce := bytes.Repeat([]byte{byte(i)}, audit.NonceBytes)
		record := audit.Record{Kind: audit.Check, Type: "domain", Verdict: verdict}
		head = head.Next(audit.Leaf(nonce, record))
		rows = append(rows, audit.Row{
			Seq: head.Seq, Leaf: audit.Leaf(nonce, record), Hash: head.Hash, Nonce: nonce, Record: record,
		})
	}

	verify := func() error {
		verifier := audit.NewVerifier(audit.Genesis(0), signer.Public, []audit.Head{head})
		for _, row := range rows {
			if err := verifier.Add(row); err != nil {
				return err
			}
		}
		return verifier.Close(head)
	}
	fmt.Println(verify())
	rows[1].Record.Verdict = "allow"
	fmt.Println(verify())
	// Output:
	// <nil>
	// audit chain 0 breaks at record 2: the record does not match its leaf
}

// A checkpoint is a signed head that is kept outside the database.
func ExampleSigner_Checkpoint() {
	signer := audit.NewSigner("assay.example/audit", make([]byte, 32))
	signed, err := signer.Checkpoint(audit.Genesis(7))
	if err != nil {
		fmt.Println(err)
		return
	}
	head, err := signer.OpenCheckpoint(signed)
	fmt.Println(head == audit.Genesis(7), err)
	// Output: true <nil>
}
