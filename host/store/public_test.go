package store

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"assay/host/store/postgres/postgrestest"
)

func TestTakePublicIsExactAcrossHosts(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	clock := func() time.Time { return noon }
	hosts := []*Store{open(t, url, clock), open(t, url, clock)}
	client := netip.MustParsePrefix("192.0.2.7/32")
	oks, resets := make([]bool, 30), make([]time.Time, 30)
	noError(t, errors.Join(concurrently(len(oks), func(i int) (err error) {
		resets[i], oks[i], err = hosts[i%2].TakePublic(t.Context(), client)
		return err
	})...))
	passed := 0
	for i, ok := range oks {
		if ok {
			passed++
		} else if !resets[i].Equal(noon.Add(time.Hour)) {
			t.Errorf("reset at %v, want an hour after the first use", resets[i])
		}
	}
	expect(t, "uses that passed", passed, publicUses)
}

// TestSpentClientsCostNoQuery checks that a client who has reached the limit is refused without the database.
func TestSpentClientsCostNoQuery(t *testing.T) {
	t.Parallel()
	now := noon
	s := newStore(t, func() time.Time { return now })
	client := netip.MustParsePrefix("192.0.2.7/32")
	take := func() (time.Time, bool, error) { return s.Take(t.Context(), "a ", client, 2, time.Minute) }
	for i := range 3 {
		if _, ok, err := take(); err != nil || ok != (i < 2) {
			t.Fatalf("use %d: %v, %v", i+1, ok, err)
		}
	}
	noError(t, s.Close())
	if reset, ok, err := take(); err != nil || ok || !reset.Equal(noon.Add(time.Minute)) {
		t.Errorf("without a database: %v, %v, %v", reset, ok, err)
	}
	if _, _, err := s.Take(t.Context(), "b ", client, 2, time.Minute); err == nil {
		t.Error("another action did not ask the database")
	}
	now = noon.Add(time.Minute)
	if _, _, err := take(); err == nil {
		t.Error("after the reset, the database was not asked")
	}
}

func TestTakePublicSlidingWindow(t *testing.T) {
	t.Parallel()
	now := noon
	s := newStore(t, func() time.Time { return now })
	client := netip.MustParsePrefix("192.0.2.7/32")
	take := func(name string, after time.Duration, wantOK bool, wantReset time.Duration) {
		t.Helper()
		now = noon.Add(after)
		reset, ok, err := s.TakePublic(t.Context(), client)
		if err != nil || ok != wantOK {
			t.Errorf("%s: %v, %v, want %v", name, ok, err, wantOK)
		}
		if !ok && !reset.Equal(noon.Add(wantReset)) {
			t.Errorf("%s: resets at %v, want %v", name, reset, noon.Add(wantReset))
		}
	}
	for i := range publicUses {
		take("within the limit", time.Duration(i)*time.Minute, true, 0)
	}
	take("over the limit", 10*time.Minute, false, time.Hour)
	take("just before the first is an hour old", time.Hour-time.Microsecond, false, time.Hour)
	take("when the first is an hour old", time.Hour, true, 0)
	take("with the second as the oldest", time.Hour, false, time.Hour+time.Minute)
	take("when the second is an hour old", time.Hour+time.Minute, true, 0)
	take("a rejected use does not count", time.Hour+time.Minute, false, time.Hour+2*time.Minute)
	take("hours later", 5*time.Hour, true, 0)
	expect(t, "stored uses", one[int](t, s, "SELECT cardinality(uses) FROM public_uses"), 1)
}

func TestTakeCountsClientsAndActionsSeparately(t *testing.T) {
	t.Parallel()
	s := newStore(t, func() time.Time { return noon })
	first := netip.MustParsePrefix("2001:db8:0:1::7/64")
	for range publicUses {
		if _, ok, err := s.TakePublic(t.Context(), first); err != nil || !ok {
			t.Fatal(ok, err)
		}
	}
	for name, test := range map[string]struct {
		client string
		ok     bool
	}{
		"same":                         {"2001:db8:0:1::7/64", false},
		"another address of the /64":   {"2001:db8:0:1:ffff::1/64", false},
		"the neighbouring /64":         {"2001:db8:0:2::7/64", true},
		"an IPv4 client":               {"192.0.2.7/32", true},
		"the next IPv4 client":         {"192.0.2.8/32", true},
		"the /64's first address /128": {"2001:db8:0:1::/128", true},
	} {
		if _, ok, err := s.TakePublic(t.Context(), netip.MustParsePrefix(test.client)); err != nil || ok != test.ok {
			t.Errorf("%s: %v, %v, want %v", name, ok, err, test.ok)
		}
	}
	for i, action := range []string{"a ", "a ", "b "} {
		if _, ok, err := s.Take(t.Context(), action, first, 1, time.Hour); err != nil || ok != (i != 1) {
			t.Errorf("use %d, of action %q: %v, %v", i+1, action, ok, err)
		}
	}
}

func TestPrunePublic(t *testing.T) {
	t.Parallel()
	now := noon
	s := newStore(t, func() time.Time { return now })
	old, recent := netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("192.0.2.2/32")
	for _, use := range []struct {
		client netip.Prefix
		at     time.Duration
	}{{old, 0}, {recent, 0}, {recent, time.Minute}} {
		now = noon.Add(use.at)
		if _, ok, err := s.TakePublic(t.Context(), use.client); err != nil || !ok {
			t.Fatal(ok, err)
		}
	}
	for _, step := range []struct {
		at   time.Duration
		want int
	}{{time.Hour - time.Microsecond, 2}, {time.Hour, 1}, {time.Hour + time.Minute, 0}} {
		now = noon.Add(step.at)
		noError(t, s.PrunePublic(t.Context()))
		expect(t, fmt.Sprintf("clients after %v", step.at), one[int](t, s, "SELECT count(*) FROM public_uses"),
			step.want)
	}
}
