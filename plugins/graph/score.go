package main

import (
	"strconv"

	"assay/sdk"
)

// The points of each signal. They add up to the layer's score, 0 to 100. The graph repeats what earlier checks found,
// and an attacker can open several accounts, so the layer alone never reaches review in the default lineup
// (TestVerdicts), and its points grow with the number of customers. The standing layer scores customers who know an
// entity and did not block it.
const (
	maxBlocked    = 40 // for an entity that many customers always blocked
	maxNeighbours = 60
	minShare      = 20 // percent; a lower share may be due to wrong verdicts
	prior         = 3  // damps shares of few customers or neighbours: n of them count n/(n+prior)
)

// Score scores an entity from the graph.* facts, which cover all customers' checks.
func Score(c *sdk.Check) sdk.Outcome {
	customers, _ := c.Count(sdk.GraphCustomers)
	share := 0
	if customers > 0 {
		share, _ = c.Count(sdk.GraphBlockedShare)
	}
	if share >= minShare {
		if points := damped(maxBlocked, share, customers); points > 0 {
			reported, _ := c.Count(sdk.GraphReportedShare)
			code, lead, of := signalEntityBlocked, "Blocked in ", "% of the checks of "
			if reported >= share {
				code, lead, of = signalEntityReported, "Reported as fraud by ", "% of "
			} else if reported > 0 {
				lead = "Blocked or reported as fraud in "
			}
			c.Signal(points, code, sdk.Join(lead, strconv.Itoa(share), of, atLeast(customers), strconv.Itoa(customers),
				" customers within 90 days"))
		}
	}
	if neighbours, _ := c.Count(sdk.GraphNeighbours); neighbours > 0 {
		scoreNeighbours(c, neighbours)
	}
	return sdk.Scored
}

// scoreNeighbours scores the entities connected to this one.
func scoreNeighbours(c *sdk.Check, neighbours int) {
	risk, _ := c.Count(sdk.GraphNeighbourRisk)
	if risk < minShare {
		return
	}
	if points := damped(maxNeighbours, risk, neighbours); points > 0 {
		c.Signal(points, signalNeighboursBad, sdk.Join(strconv.Itoa(risk), "% of ", atLeast(neighbours),
			strconv.Itoa(neighbours), " entities connected with this ", kind(c.Get(sdk.EntityType)),
			" were blocked or are listed"))
	}
}

// damped returns the points for a share in percent among n, at most limit.
func damped(limit, share, n int) int { return limit * min(share, 100) * n / (100 * (n + prior)) }

// atLeast returns the words before a number that the host rounded down. It does not round numbers below 5.
func atLeast(n int) string {
	if n < 5 {
		return ""
	}
	return "at least "
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
