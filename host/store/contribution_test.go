package store

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"assay/host/access/keyring"
	"assay/host/audit"
	"assay/host/check"
	"assay/host/entity"
)

// contributed returns the contribution of a check with linked entities and observed parents.
func contributed(t testing.TB) (contribution, check.Record) {
	t.Helper()
	r := decided(check.Caller{Account: "acct_1"}, parse(t, entity.Email, "jane@mail.example.co.uk"), check.Review)
	r.Linked = []entity.Entity{parse(t, entity.Domain, "shop.example.co.uk"), parse(t, entity.Phone, "+4915123456789"),
		parse(t, entity.IBAN, "DE89370400440532013000")}
	r.LookedUp = entity.Facts{"dns.ns": "ns1.hosting.example", "dns.a": "198.51.100.7"}
	return contributionOf(audit.NewPseudonyms(testRing.Graph), "acct_1", r), r
}

// A contribution can be read again, and only by holders of the secret.
func TestContributionIsSealed(t *testing.T) {
	t.Parallel()
	want, r := contributed(t)
	item, scored := newContribution(testRing, "acct_1", r)
	got, err := openContribution(testRing, item)
	noError(t, err)
	if !bytes.Equal(got.encode(), want.encode()) || got.account != "acct_1" || got.verdict != check.Review ||
		!got.at.Equal(r.Decision.At) || len(got.links) != len(want.links) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if !bytes.Equal(scored, got.nodes[0].node) || got.nodes[0].kind != "email" {
		t.Errorf("the scored node is %+v", got.nodes[0])
	}
	for _, kind := range nodeKinds {
		if !slices.ContainsFunc(got.nodes, func(n nodeSeen) bool { return n.kind == kind }) {
			t.Errorf("no node is a %s", kind)
		}
	}
	other := must(keyring.Create(t.TempDir() + "/secret"))(t)
	wantFailure(t, errOf(openContribution(other, item)), "another secret opens it")
	for i := range item {
		altered := bytes.Clone(item)
		altered[i] ^= 1
		if _, err := openContribution(testRing, altered); err == nil {
			t.Fatalf("it opens with byte %d altered", i)
		}
	}
}

// The format does not change: contributions wait in the database while hosts are replaced.
func TestContributionFormat(t *testing.T) {
	t.Parallel()
	a, b := bytes.Repeat([]byte{0xaa}, nodeBytes), bytes.Repeat([]byte{0xbb}, nodeBytes)
	c := contribution{account: "acct_1", at: time.UnixMilli(0x0102030405).UTC(), verdict: check.Block,
		nodes: []nodeSeen{{"domain", a}, {"registrable", b}}, links: [][2]int{{0, 1}}}
	want := slices.Concat([]byte{1, 2, 0, 0, 0, 1, 2, 3, 4, 5, 6}, []byte("acct_1"), []byte{2, 0}, a, []byte{4}, b,
		[]byte{1, 0, 1})
	if got := c.encode(); !bytes.Equal(got, want) {
		t.Errorf("encoded as %x, want %x", got, want)
	}
}

// FuzzDecodeContribution checks that any bytes are either refused or decoded into what encodes to the same meaning.
func FuzzDecodeContribution(f *testing.F) {
	c, _ := contributed(f)
	f.Add(c.encode())
	f.Add([]byte{})
	f.Add(append([]byte{1, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := decodeContribution(b)
		if err != nil {
			return
		}
		for _, l := range c.links {
			if max(l[0], l[1]) >= len(c.nodes) {
				t.Fatalf("a link to node %v of %d", l, len(c.nodes))
			}
		}
		again, err := decodeContribution(c.encode())
		if err != nil || !bytes.Equal(again.encode(), c.encode()) {
			t.Fatalf("%v: %+v becomes %+v", err, c, again)
		}
	})
}
