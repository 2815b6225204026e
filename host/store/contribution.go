package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"assay/host/access/keyring"
	"assay/host/check"
	"assay/host/entity"
)

// contribution is the data that one check adds to the reputation graph. The ledger stores it with the check's record; a
// projection applies it later.
type contribution struct {
	account int64 // see graphAccount
	at      time.Time
	verdict check.Verdict // on first-hand evidence; of the scored entity only, because the others were not scored
	nodes   []nodeSeen    // a node that the check met twice counts twice
	links   [][2]int      // indexes into nodes
	scored  int           // index of the scored entity, which is the first; -1: it is forgotten
}

// nodeSeen is a node that a check counts.
type nodeSeen struct {
	kind string
	node []byte // its name, nodeBytes long
}

// newContribution returns a check's contribution to the reputation graph, encoded and encrypted, and the node of the
// scored entity.
func newContribution(keys *keyring.Ring, account string, r check.Record) (item, node []byte) {
	c := contributionOf(newNodeNames(keys), account, r)
	return keys.SealContribution(c.encode()), c.nodes[0].node
}

// openContribution decrypts and decodes an item of newContribution.
func openContribution(keys *keyring.Ring, item []byte) (contribution, error) {
	plain, err := keys.OpenContribution(item)
	if err != nil {
		return contribution{}, err
	}
	return decodeContribution(plain)
}

// contributionOf counts the scored entity, its parents, and the other entities of the request.
func contributionOf(names nodeNames, account string, r check.Record) contribution {
	c := contribution{account: graphAccount(account), at: r.Decision.At, verdict: firstHandVerdict(r.Decision)}
	add := func(kind, value string) int {
		c.nodes = append(c.nodes, nodeSeen{kind, names.of(kind, value)})
		return len(c.nodes) - 1
	}
	linkParents := func(node int, parents []entity.Parent) {
		for _, p := range parents {
			c.links = append(c.links, [2]int{node, add(p.Kind, p.Value)})
		}
	}
	scored := add(string(r.Entity.Type), r.Entity.Value)
	linkParents(scored, r.Entity.Parents())
	if r.Entity.Facts["email.provider"] == "" { // the servers of a mail provider would link millions of strangers
		linkParents(scored, observedParents(r.LookedUp))
	}
	for _, e := range r.Linked {
		node := add(string(e.Type), e.Value)
		linkParents(node, e.Parents())
		c.links = append(c.links, [2]int{scored, node})
	}
	return c
}

// contributionVersion is the first byte of an encoded contribution.
const contributionVersion = 1

// The kinds of nodes and the verdicts, by their numbers in an encoded contribution. Their order must never change.
var (
	nodeKinds = []string{"domain", "email", "phone", "iban", "registrable", "maildomain", "range", "bank",
		"nameserver", "network"}
	verdicts = []check.Verdict{check.Allow, check.Review, check.Block}
)

// headBytes is the length of an encoded contribution before the nodes.
const headBytes = 2 + 8 + 8

// encode returns the contribution as bytes: version, verdict, milliseconds since 1970, account, and then nodes and
// links, each preceded by their number. Numbers and indexes are varints.
func (c contribution) encode() []byte {
	b := make([]byte, 0, headBytes+4+len(c.nodes)*(nodeBytes+1)+2*len(c.links))
	b = append(b, contributionVersion, byte(slices.Index(verdicts, c.verdict)))
	b = binary.BigEndian.AppendUint64(b, uint64(c.at.UnixMilli()))
	b = binary.BigEndian.AppendUint64(b, uint64(c.account))
	b = binary.AppendUvarint(b, uint64(len(c.nodes)))
	for _, n := range c.nodes {
		b = append(b, byte(slices.Index(nodeKinds, n.kind)))
		b = append(b, n.node...)
	}
	b = binary.AppendUvarint(b, uint64(len(c.links)))
	for _, l := range c.links {
		b = binary.AppendUvarint(b, uint64(l[0]))
		b = binary.AppendUvarint(b, uint64(l[1]))
	}
	return b
}

var errContribution = errors.New("not a contribution to the reputation graph that this host can read")

// decodeContribution is the inverse of encode. It refuses values that the database would not store.
func decodeContribution(b []byte) (contribution, error) {
	if len(b) < headBytes || b[0] != contributionVersion || int(b[1]) >= len(verdicts) {
		return contribution{}, errContribution
	}
	c := contribution{verdict: verdicts[b[1]], at: time.UnixMilli(int64(binary.BigEndian.Uint64(b[2:10]))).UTC(),
		account: int64(binary.BigEndian.Uint64(b[10:headBytes]))}
	b = b[headBytes:]
	if c.at.Year() < 1970 || c.at.Year() > 9999 {
		return contribution{}, errContribution
	}
	failed := false
	// number reads a number that is at most limit.
	number := func(limit int) int {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > uint64(max(0, limit)) {
			failed, b = true, nil
			return 0
		}
		b = b[size:]
		return int(n)
	}
	n := number(len(b) / (nodeBytes + 1))
	if n == 0 || n*(nodeBytes+1) > len(b) {
		return contribution{}, errContribution
	}
	c.nodes = make([]nodeSeen, n)
	for i := range c.nodes {
		if int(b[0]) >= len(nodeKinds) {
			return contribution{}, errContribution
		}
		c.nodes[i] = nodeSeen{nodeKinds[b[0]], slices.Clone(b[1 : nodeBytes+1])}
		b = b[nodeBytes+1:]
	}
	for range number(len(b) / 2) {
		c.links = append(c.links, [2]int{number(len(c.nodes) - 1), number(len(c.nodes) - 1)})
	}
	if failed || len(b) > 0 {
		return contribution{}, errContribution
	}
	return c, nil
}

// without returns the contribution without a node, its links and their effect on its parents. Linked entities have
// their own checks.
func (c contribution) without(node []byte) contribution {
	gone := map[int]bool{}
	for i, n := range c.nodes {
		gone[i] = bytes.Equal(n.node, node)
	}
	parents := map[int]bool{}
	for _, l := range c.links {
		if gone[l[0]] && !isEntity(c.nodes[l[1]].kind) {
			parents[l[1]] = true
		}
	}
	rest, places := c, map[int]int{}
	rest.nodes, rest.links, rest.scored = nil, nil, -1
	for i, n := range c.nodes {
		if gone[i] || parents[i] {
			continue
		}
		if places[i] = len(rest.nodes); i == c.scored {
			rest.scored = places[i]
		}
		rest.nodes = append(rest.nodes, n)
	}
	for _, l := range c.links {
		a, foundA := places[l[0]]
		b, foundB := places[l[1]]
		if foundA && foundB {
			rest.links = append(rest.links, [2]int{a, b})
		}
	}
	return rest
}
