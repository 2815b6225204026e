package main

import (
	"strconv"

	"assay/sdk"
)

// The graph is hearsay: it repeats what checks found before, and customers can be made up. So all of it together
// weighs, at the layer's default weight and a bias of -4, less than a review asks for, and each part grows with the
// number of customers who vouch.
const (
	mostBlocked    = 40 // points of an entity that was blocked always, for many customers
	mostNeighbours = 60
	pointsKnown    = -40
	leastShare     = 20 // percent below which a share says nothing: layers err
	doubt          = 3  // customers' or neighbours' worth of doubt
	manyCustomers  = 10
	longDays       = 30
)

// Score judges what customers together met.
func Score(c *sdk.Check) sdk.Outcome {
	customers, seen := number(c, "graph.customers"), number(c, "graph.seen")
	share, since := number(c, "graph.blocked_share"), number(c, "graph.first_seen_days")
	if customers > 0 && share >= leastShare {
		if points := damped(mostBlocked, share, customers); points > 0 {
			c.Signal(points, "graph:entity:blocked", "met by "+atLeast(customers)+
				" customers within 90 days, and blocked in "+
				strconv.Itoa(share)+" percent of their checks")
		}
	}
	neighbours, risk := number(c, "graph.neighbours"), number(c, "graph.neighbour_risk")
	if neighbours > 0 && risk >= leastShare {
		if points := damped(mostNeighbours, risk, neighbours); points > 0 {
			c.Signal(points, "graph:neighbours:bad", "of "+atLeast(neighbours)+" others seen with this "+
				kind(c.Get("entity.type"))+
				", or on the same network, domain or bank, "+strconv.Itoa(risk)+" percent were blocked or are listed")
		}
	}
	if customers >= manyCustomers && seen >= manyCustomers && share < leastShare && since >= longDays {
		c.Signal(pointsKnown, "graph:entity:known", "met by "+atLeast(customers)+" customers, for at least "+
			strconv.Itoa(since)+
			" days, and hardly ever blocked")
	}
	return sdk.Scored
}

// damped is the part of most that a percentage found among n is worth.
func damped(most, share, n int) int { return most * min(share, 100) * n / (100 * (n + doubt)) }

// atLeast words a number that was rounded down.
func atLeast(n int) string {
	if n < 5 {
		return strconv.Itoa(n)
	}
	return "at least " + strconv.Itoa(n)
}

func kind(entityType string) string {
	switch entityType {
	case "domain", "email", "phone":
		return entityType
	case "iban":
		return "IBAN"
	}
	return "entity"
}

// number reads a fact that counts something; 0 when it is absent or no count.
func number(c *sdk.Check, fact string) int {
	n, err := strconv.Atoi(c.Get(fact))
	if err != nil || n < 0 || n > 1_000_000_000 {
		return 0
	}
	return n
}
