package console

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/decision"
	"assay/host/webhook"
)

// unreadable is a store that cannot read one panel of each page.
type unreadable struct{ Store }

var errUnreadable = errors.New("the secret reason")

func (unreadable) CountDays(context.Context, check.Caller, time.Time, time.Time) ([]decision.Count, error) {
	return nil, errUnreadable
}

func (unreadable) RecentEvents(context.Context, string, string, int64, int) ([]webhook.Event, error) {
	return nil, errUnreadable
}

func (unreadable) CodeIssuedAt(context.Context, string) (time.Time, error) {
	return time.Time{}, errUnreadable
}

// TestFailedPanels checks that a page shows its other panels if one cannot be read, and fails as a whole in an outage.
func TestFailedPanels(t *testing.T) {
	t.Parallel()
	var outage atomic.Bool
	s := serve(t, func(c *Config) {
		c.Store = unreadable{c.Store}
		c.Outage = func(error) bool { return outage.Load() }
	})
	v, _ := s.customer(t, "starter")
	for path, others := range map[string]string{
		"/dashboard": "Recent checks", "/dashboard/webhooks": "Webhook URL", "/dashboard/account": "Signed-in browsers",
	} {
		v.get(path)
		v.is(200, others)
		if strings.Count(v.at.body, "This could not be read") != 1 || strings.Contains(v.at.body, "secret reason") ||
			!strings.Contains(v.at.body, `<a href="`+path+`">Try again</a>`) {
			t.Errorf("%s: %s", path, v.at.body)
		}
	}
	outage.Store(true)
	v.get("/dashboard")
	v.is(503, "The database is not available")
}

// TestDownloadsAreLimited checks that downloads take slots, and that each is given back.
func TestDownloadsAreLimited(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	v, _ := s.customer(t, "starter")
	for range 3 {
		v.get("/dashboard/checks/export?format=csv")
		v.is(200, "ref,timestamp")
	}
	var releases []func()
	for _, account := range []string{"acct_other", "acct_another"} {
		release, err := s.cfg.Downloads.Take(account)
		if err != nil {
			t.Fatal(err)
		}
		releases = append(releases, release)
	}
	v.get("/dashboard/checks/export?format=csv")
	v.is(503, "Too many downloads")
	for _, release := range releases {
		release()
	}
	v.get("/dashboard/checks/export?format=csv")
	v.is(200, "ref,timestamp")
}
