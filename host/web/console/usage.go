package console

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/gofiber/fiber/v2"

	"assay/host/access/apikey"
	"assay/host/check"
	"assay/host/customer/decision"
	"assay/host/entity"
	"assay/host/web/refusal"
)

// usageMonths is how many months the usage page offers: those whose records are kept.
const usageMonths = 13

// tally counts the checks that have something in common, such as a key, by verdict.
type tally struct {
	Name                        string
	Allow, Review, Block, Total int
}

// tallies sums counts by the result of name, the most frequent first.
func tallies(counts []decision.Count, name func(decision.Count) string) []tally {
	sums := map[string]tally{}
	for _, c := range counts {
		sum := sums[name(c)]
		sum.Name = name(c)
		switch check.Verdict(c.Verdict) {
		case check.Allow:
			sum.Allow += c.Checks
		case check.Review:
			sum.Review += c.Checks
		case check.Block:
			sum.Block += c.Checks
		}
		sum.Total += c.Checks
		sums[sum.Name] = sum
	}
	return slices.SortedFunc(maps.Values(sums), func(a, b tally) int {
		return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(a.Name, b.Name))
	})
}

// usage shows the account's usage in a month.
func (c *Console) usage(ctx *fiber.Ctx, s *session) error {
	now := c.cfg.Now().UTC()
	current := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	month, err := time.Parse(decision.MonthFormat, query(ctx, "month"))
	if err != nil || month.After(current) || month.Before(current.AddDate(0, 1-usageMonths, 0)) {
		month = current
	}
	p := c.panels(ctx)
	used := new(decision.Usage)
	p.read("usage", func(work context.Context) error {
		read, err := c.cfg.Store.MonthlyUsage(work, s.holder(), month)
		if err == nil {
			used = read
		}
		return err
	})
	keys := panel(p, "keys", s.Account, c.cfg.Store.Keys) // without them, ids are shown
	months := make([]time.Time, usageMonths)
	for i := range months {
		months[i] = current.AddDate(0, -i, 0)
	}
	days := decision.Spans(used.Counts, month, decision.Daily, month.AddDate(0, 1, -1).Day())
	groups := []struct {
		Name  string
		Lines []tally
	}{
		{"Key", tallies(used.Counts, func(n decision.Count) string { return keyName(keys, n.Key) })},
		{"Type", tallies(used.Counts, func(n decision.Count) string { return n.Type })},
	}
	return p.render("usage", s, view{"Title": "Usage", "Usage": used, "Month": month, "Months": months,
		"Current": month.Equal(current), "Spans": days, "Total": total(days), "Chart": chart(days), "Groups": groups})
}

// keyName returns the name by which the customer knows a key.
func keyName(keys []apikey.Key, id string) string {
	for _, k := range keys {
		if k.ID == id {
			return k.Name + " (" + k.Hint + ")"
		}
	}
	return id
}

// exportChecks sends the checks that the filter selects as a file. A value cannot be part of the filter, because it
// must not be in a URL.
func (c *Console) exportChecks(ctx *fiber.Ctx, s *session) error {
	format, err := decision.ParseFormat(query(ctx, "format"))
	var q decision.Query
	if err == nil {
		q, err = readFilter(ctx).query()
	}
	if invalid, ok := errors.AsType[*entity.InvalidError](err); ok {
		return refusal.Page(fiber.StatusBadRequest, describe(invalid))
	}
	if q.Until.IsZero() {
		q.Until = c.cfg.Now().UTC() // so that it does not grow while it is read
	}
	release, err := c.cfg.Downloads.Take(s.caller().Share()) // until the file is sent
	if err != nil {
		return refusal.Page(fiber.StatusServiceUnavailable,
			"Too many downloads are running. Try again when one has finished.")
	}
	conn := ctx.Context().Conn()
	export, header, err := decision.Download(work(ctx), c.cfg.Store, s.holder(), q, format, func() {
		_ = conn.SetWriteDeadline(time.Now().Add(pageTimeout)) // for each page, not for all of them
	}, release)
	if err != nil {
		return err
	}
	for name, value := range header {
		ctx.Set(name, value)
	}
	ctx.Context().Response.SetBodyStream(export, -1)
	return nil
}
