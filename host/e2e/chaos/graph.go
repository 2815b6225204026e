package chaos

import (
	"cmp"
	"fmt"
)

// nodeBytes is the length of a node's name, the beginning of a keyed hash.
const nodeBytes = 16

// graph compares the reputation graph with the records.
func (c *checker) graph() {
	if c.state.Waiting > 0 || c.state.Damaged > 0 {
		c.differ("%d contributions to the graph were not applied, and %d could not be read", c.state.Waiting,
			c.state.Damaged)
	}
	nodes, edges, names := map[string]int{}, map[string]int{}, map[string]string{}
	node := func(kind, value string) (name string) {
		name = keyed(c.keys.Graph, nil, kind, value)[:nodeBytes]
		names[name] = kind + " " + value
		return name
	}
	for _, s := range c.subjects {
		n, own := len(s.records), node(s.item.Type, s.item.Value)
		nodes[s.account+own] += n
		for _, p := range s.item.Parents {
			parent := node(p.Kind, p.Value)
			nodes[s.account+parent] += n
			edges[s.account+own+parent] += n
			edges[s.account+parent+own] += n
		}
	}
	for _, g := range c.state.Sightings {
		nodes[g.Account+string(g.Node)] -= g.Checks
	}
	for _, g := range c.state.Edges {
		edges[g.Account+string(g.Node)+string(g.Other)] -= g.Checks
	}
	split := func(id string) (rest, name string) {
		rest, name = id[:len(id)-nodeBytes], id[len(id)-nodeBytes:]
		return rest, cmp.Or(names[name], fmt.Sprintf("an unknown node %x", name))
	}
	for id, n := range nodes {
		if n != 0 {
			account, name := split(id)
			c.differ("the number of checks of %s of %s in the graph differs by %+d from the records", name, account, -n)
		}
	}
	for id, n := range edges {
		if n != 0 {
			rest, other := split(id)
			account, name := split(rest)
			c.differ("the number of links of %s and %s of %s in the graph differs by %+d from the records", name, other,
				account, -n)
		}
	}
}
