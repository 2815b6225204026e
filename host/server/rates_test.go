package server

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"assay/host/access/admission"
	"assay/host/check"
	"assay/host/hosttest"
	"assay/host/installation"
	"assay/host/store/postgres/postgrestest"
	"assay/registry/expect"
)

// accepted counts how many of n uses at once are accepted.
func accepted(n int, take func() error) (count int) {
	for range n {
		if take() == nil {
			count++
		}
	}
	return count
}

func TestRates(t *testing.T) {
	t.Parallel()
	pro, _ := check.PlanNamed("pro")
	r := newRates(map[string]int{"pro": 12, installation.PublicRate: 24, installation.NetworkRate: 24}, nil, nil)
	now := time.Now()
	r.limiter = admission.NewLimiter(func() time.Time { return now })
	use := func(key string, quota int) int {
		p := pro
		p.Quota = quota
		return accepted(50, func() error { return r.TakeKey(check.Caller{Account: "acct_1", Key: key, Plan: p}) })
	}
	checks := func(key string, quota, n int) int {
		p := pro
		p.Quota = quota
		return accepted(n, func() error { return r.TakeCheck(check.Caller{Account: "acct_1", Key: key, Plan: p}) })
	}
	for _, test := range []struct {
		name string
		got  int
		want int
	}{
		{"a month's checks and those that the quota refuses", checks("key_1", 50, 200), 51},
		{"a quota that is too large to use at once", checks("key_2", pro.Quota, 2000), maxBurst + 1},
		{"a very large quota", checks("key_3", 1<<40, 2000), 2000},
		{"a key", use("key_1", pro.Quota), 1},
		{"another key of the account", use("key_2", pro.Quota), 1},
		{"a lower quota", use("key_3", 1), 1},
		{"a quota of ten times the plan's", use("key_4", 10*pro.Quota), 10},
		{"a quota without a bound", use("key_5", 1<<40), 50},
		{"a network", accepted(9, func() error { return r.TakeNetwork(netip.MustParsePrefix("192.0.2.7/32")) }), 2},
		{"the same network", accepted(9, func() error { return r.TakeNetwork(netip.MustParsePrefix("192.0.2.8/32")) }),
			0},
		{"checks of a network", accepted(9, func() error {
			return r.takePublic(netip.MustParsePrefix("2001:db8:1:2::/64"))
		}), 2},
		{"another /64 of it", accepted(9, func() error {
			return r.takePublic(netip.MustParsePrefix("2001:db8:1:3::/64"))
		}), 0},
		{"each of 200 other networks", accepted(200, func() func() error {
			n := byte(0)
			return func() error {
				n++
				return r.takePublic(netip.PrefixFrom(netip.AddrFrom4([4]byte{10, n, 0, 1}), 32))
			}
		}()), 200},
		{"no address", accepted(9, func() error { return r.TakeNetwork(netip.Prefix{}) }), 2},
	} {
		expect.That(t, test.got == test.want, "%s: %d uses at once were accepted, want %d", test.name, test.got,
			test.want)
	}
	none := newRates(map[string]int{}, nil, nil)
	r = none
	n := checks("key_1", 50, 1000)
	expect.That(t, n == 1000, "without limits, %d of 1000 checks were accepted", n)
	n = accepted(1000, func() error { return none.takePublic(netip.Prefix{}) })
	expect.That(t, n == 1000, "without limits, %d of 1000 uses were accepted", n)
}

// A network's flood without a key is refused before the database. An address that has used up its hourly checks is
// refused before that, and takes nothing from its neighbours.
func TestPublicLimit(t *testing.T) {
	t.Parallel()
	s := hosttest.OpenStore(t, hosttest.DataDir(t), postgrestest.Database(t)).Store
	p := publicLimit{s, newRates(map[string]int{installation.PublicRate: 13 * 12}, nil, nil)}
	now := time.Now()
	p.rates.limiter = admission.NewLimiter(func() time.Time { return now })
	take := func(address string) (ok bool, err error) {
		_, ok, err = p.Take(t.Context(), netip.MustParsePrefix(address))
		return ok, err
	}
	for i := range 300 {
		ok, err := take("192.0.2.7/32")
		expect.Must(t, err == nil && ok == (i < 10), "check %d of an address: %v, %v", i+1, ok, err)
	}
	for _, want := range []bool{true, true, false} {
		ok, err := take("192.0.2.8/32")
		var refused *admission.RateError
		expect.That(t, ok == want && errors.As(err, &refused) != want, "a neighbour: %v, %v, want %v", ok, err, want)
	}
}
