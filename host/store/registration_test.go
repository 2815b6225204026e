package store

import (
	"testing"
	"time"

	"assay/host/facts/registration"
)

func TestRegistration(t *testing.T) {
	t.Parallel()
	now := noon
	s := newStore(t, func() time.Time { return now })
	wantStored := func(domain string, want registration.Record, found bool) {
		t.Helper()
		got, ok, err := s.Registration(t.Context(), domain)
		if err != nil || ok != found {
			t.Fatalf("Registration(%s) = %v, %v; want %v", domain, ok, err, found)
		}
		noDiff(t, "registration of "+domain, want, got)
	}
	save := func(domain string, r registration.Record) {
		t.Helper()
		noError(t, s.SaveRegistration(t.Context(), domain, r))
	}
	full := registration.Record{
		Outcome: registration.Registered, Created: noon.AddDate(0, 0, -3), Expires: noon.AddDate(1, 0, 0),
		Changed: noon.AddDate(0, 0, -2), Registrar: "Names 'R' Us, \"Ltd\"",
		Status: "active client_hold", Fetched: noon, NextFetch: noon.Add(time.Hour),
	}
	wantStored("example.com", registration.Record{}, false)
	save("example.com", full)
	wantStored("example.com", full, true)
	expect(t, "bytes of the domain's hash", one[int](t, s, "SELECT length(domain) FROM registrations"), 32)
	wantStored("example.org", registration.Record{}, false)

	// A slow host must not overwrite a newer result.
	older := full
	older.Outcome, older.Fetched = registration.Failed, noon.Add(-time.Minute)
	save("example.com", older)
	wantStored("example.com", full, true)

	// Unknown dates stay zero.
	dateless := registration.Record{Outcome: registration.Absent, Fetched: noon.Add(time.Minute),
		NextFetch: noon.Add(time.Hour), Failures: 2}
	save("example.com", dateless)
	wantStored("example.com", dateless, true)

	now = noon.Add(registrationMaxAge)
	noError(t, s.PruneRegistrations(t.Context()))
	wantStored("example.com", dateless, true)
	now = noon.Add(registrationMaxAge + 2*time.Minute)
	noError(t, s.PruneRegistrations(t.Context()))
	wantStored("example.com", registration.Record{}, false)
}
