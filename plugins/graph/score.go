package main

import (
	"strconv"

	"assay/sdk"
)

// The points of each signal. They add up to the layer's score, 0 to 100. The graph repeats what earlier checks found,
// and an attacker can open several accounts, so the layer alone never reaches review in the default lineup
// (TestVerdicts), and its points grow with the number of customers.
const (
	maxBlocked    = 40 // for an entity that was always blocked, for many customers
	maxNeighbours = 60
	pointsKnown   = -40
	minShare      = 20 // percent; a lower share may be due to wrong verdicts
	prior         = 3  // damps shares of few customers or neighbours: n of them count n/(n+prior)
	manyCustomers = 10
	longDays      = 30
)

// Score scores an entity from the graph.* facts, which cover all customers' checks.
func Score(c *sdk.Check) sdk.Outcome {
	customers, seen := number(c, "graph.customers"), number(c, "graph.seen")
	share, since := number(c, "graph.blocked_share"), number(c, "graph.first_seen_days")
	if customers > 0 && share >= minShare {
		if points := damped(maxBlocked, share, customers); points > 0 {
			c.Signal(points, "graph:entity:blocked", "met by "+atLeast(customers)+
				" customers within 90 days, and blocked in "+strconv.Itoa(share)+" percent of their checks")
		}
	}
	neighbours, risk := number(c, "graph.neighbours"), number(c, "graph.neighbour_risk")
	if neighbours > 0 && risk >= minShare {
		if points := damped(maxNeighbours, risk, neighbours); points > 0 {
			c.Signal(points, "graph:neighbours:bad", "of "+atLeast(neighbours)+" others seen with this "+
				kind(c.Get("entity.type"))+
				", or on the same network, domain or bank, "+strconv.Itoa(risk)+" percent were blocked or are listed")
		}
	}
	if customers >= manyCustomers && seen >= manyCustomers && share < minShare && since >= longDays {
		c.Signal(pointsKnown, "graph:entity:known", "met by "+atLeast(customers)+" customers, for at least "+
			strconv.Itoa(since)+
			" days, and hardly ever blocked")
	}
	return sdk.Scored
}

// damped returns the points for a share in percent among n, at most limit.
func damped(limit, share, n int) int { return limit * min(share, 100) * n / (100 * (n + prior)) }

// atLeast formats a number that the host rounded down. It does not round numbers below 5.
func atLeast(n int) string {
	if n < 5 {
		return strconv.Itoa(n)
	}
	return "at least " + strconv.Itoa(n)
}

// kind returns the noun for an entity type.
func kind(entityType string) string {
	switch entityType {
	case "domain", "email", "phone":
		return entityType
	case "iban":
		return "IBAN"
	}
	return "entity"
}

// number returns the value of a fact that is a count, or 0 if it is absent or malformed.
func number(c *sdk.Check, fact string) int {
	n, err := strconv.Atoi(c.Get(fact))
	if err != nil || n < 0 || n > 1_000_000_000 {
		return 0
	}
	return n
}
