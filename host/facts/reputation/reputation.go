// Package reputation looks up what is known of an entity from others: the sources "feed" (imported lists), "graph"
// (what customers met, and what became of it) and "similar" (how near it is to known scam patterns).
package reputation

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"assay/host/entity"
	"assay/host/store"
)

// Store is what is known, as *store.Store keeps it.
type Store interface {
	// Listings returns what the lists in force say of the nodes, in the order of the lists' names.
	Listings(ctx context.Context, nodes []store.Node) ([]store.Listing, error)
	// Reputations returns what is known of each subject, in their order.
	Reputations(ctx context.Context, subjects []store.Subject) ([]store.Reputation, error)
	// Feeds lists the imported lists, those that have expired included.
	Feeds(ctx context.Context) ([]store.Feed, error)
	// FeedEntries returns up to limit entries of a list that have a name, from the one after the given on.
	FeedEntries(ctx context.Context, id int, after []byte, limit int) ([]store.FeedEntry, error)
}

// queryTimeout bounds one query that many checks share. Each waits for it only as long as its own deadline allows.
const queryTimeout = 2 * time.Second

// selfNode is the node of an entity.
func selfNode(e entity.Entity) store.Node { return store.Node{Kind: string(e.Type), Value: e.Value} }

// anyWanted says whether one of the facts of a table is wanted.
func anyWanted(table []entity.Fact, wants func(string) bool) bool {
	return slices.ContainsFunc(table, func(f entity.Fact) bool { return wants(f.Name) })
}

// days is how many whole days have passed.
func days(from, to time.Time) string { return strconv.Itoa(max(0, int(to.Sub(from)/(24*time.Hour)))) }

// joined joins the different ones of names by commas, in their order, and says how many more there are than most.
func joined(names []string, most int) string {
	var kept []string
	for _, n := range names {
		if n != "" && !slices.Contains(kept, n) {
			kept = append(kept, n)
		}
	}
	if len(kept) > most {
		more := len(kept) - most
		kept = append(kept[:most], strconv.Itoa(more)+" more")
	}
	return strings.Join(kept, ", ")
}
