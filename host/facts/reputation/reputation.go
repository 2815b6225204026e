// Package reputation collects facts about an entity from other observations of it: the sources "feed" (imported lists),
// "graph" (earlier checks by all customers) and "similar" (names on lists of known scams). It declares the store that
// it needs and contains no SQL.
package reputation

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"assay/host/entity"
	"assay/host/facts/feed"
)

// Store reads imported lists and the reputation graph.
type Store interface {
	// Feeds returns the imported lists, including expired ones.
	Feeds(ctx context.Context) ([]feed.List, error)
	// FeedNames returns up to limit named entries of a list, in the order of their nodes, starting after the given one.
	// Entries for single pages on hosts that are on a good list are left out.
	FeedNames(ctx context.Context, listID int, after []byte, limit int) ([]ListedName, error)
	// Listings returns the entries for the given nodes in all lists in force, ordered by list name.
	Listings(ctx context.Context, nodes []Node) ([]Listing, error)
	// GraphAggregates returns the aggregates of each subject, in the order of subjects.
	GraphAggregates(ctx context.Context, subjects []Subject) ([]Aggregate, error)
}

// Node identifies a node of the reputation graph: an entity by its type and value, or a parent as in entity.Parent. The
// store keeps only its keyed hash.
type Node struct{ Kind, Value string }

// Listing is an entry of one list in force.
type Listing struct {
	Index     int // index of the node in the query
	Name      string
	Kind      feed.Kind
	Category  string // the entry's own category, otherwise the list's
	Page      bool   // the list has a page on this host, not the host
	Rank      int    // on a ranked list, starting at 1
	Fresh     bool   // the list is not out of date
	FirstSeen time.Time
}

// ListedName is an entry of a list with the name that similarity compares.
type ListedName struct {
	Node     []byte
	Type     string
	Value    string
	Name     string
	Category string // the entry's own category, otherwise the list's
}

// Subject is an entity and its parents: the graph nodes that it shares with other entities.
type Subject struct {
	Entity  Node
	Parents []Node
	Account string // the caller's own; may be ""
}

// Aggregate summarises the graph around one subject. Each half is zero unless at least three customers contributed to
// it, so that it never reveals the checks of one or two customers. Within a share every customer has one vote, however
// many checks it made; the vote halves every 30 days. Callers without a key have no vote.
type Aggregate struct {
	Customers    int       // customers that checked the subject within the last 90 days
	Seen         float64   // their checks, at most 10 per customer, halved every 30 days
	BlockedShare float64   // 0 to 1: share of their checks blocked on first-hand evidence, or reported as fraud
	Reported     float64   // 0 to 1: the part of BlockedShare that comes from fraud reports
	Since        time.Time // when the third customer first checked it
	Hour, Day    int       // their checks in the last hour and day, at most 10 per customer; 0 below three customers

	Own History // the caller's own checks

	Neighbours    int     // other entities linked with the subject or with one of its parents
	NeighbourRisk float64 // 0 to 1: share of the neighbours that were blocked or are on a bad list
}

// History summarises one account's checks of an entity within 90 days. It is zero if there are none.
type History struct {
	Since     time.Time // its first check
	Hour, Day int       // checks in the last hour and day, at most 64
}

// queryTimeout bounds one batched query. Each caller waits for it only until its own deadline.
const queryTimeout = time.Second

// entityNode returns the graph node of an entity.
func entityNode(e entity.Entity) Node { return Node{Kind: string(e.Type), Value: e.Value} }

// anyWanted reports whether at least one fact of a table is wanted.
func anyWanted(table []entity.Fact, wants func(string) bool) bool {
	return slices.ContainsFunc(table, func(f entity.Fact) bool { return wants(f.Name) })
}

// joinNames joins distinct non-empty names with commas, in their order. Names beyond the limit are replaced by a count.
func joinNames(names []string, limit int) string {
	var kept []string
	for _, n := range names {
		if n != "" && !slices.Contains(kept, n) {
			kept = append(kept, n)
		}
	}
	if more := len(kept) - limit; more > 0 {
		kept = append(kept[:limit], strconv.Itoa(more)+" more")
	}
	return strings.Join(kept, ", ")
}
