package store

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/host/postgres/postgrestest"
)

func TestRegistration(t *testing.T) {
	t.Parallel()
	now := noon
	s := open(t, postgrestest.Database(t), func() time.Time { return now })
	want := Registration{
		Outcome: "registered", Created: noon.AddDate(0, 0, -3), Expires: noon.AddDate(1, 0, 0),
		Registrar: "Names 'R' Us, \"Ltd\"",
		Status:    "active client_hold", Fetched: noon, Next: noon.Add(time.Hour),
	}
	holds := func(domain string, want Registration, known bool) {
		t.Helper()
		got, ok, err := s.Registration(t.Context(), domain)
		if err != nil || ok != known {
			t.Fatalf("%s: known %v, %v, want %v", domain, ok, err, known)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s differs:\n%s", domain, diff)
		}
	}
	keep := func(domain string, r Registration) {
		t.Helper()
		if err := s.KeepRegistration(t.Context(), domain, r); err != nil {
			t.Fatal(err)
		}
	}
	holds("example.com", Registration{}, false)
	keep("example.com", want)
	holds("example.com", want, true)
	holds("example.org", Registration{}, false)

	// The slower of two hosts must not put back what the faster has replaced.
	older := want
	older.Outcome, older.Fetched = "failed", noon.Add(-time.Minute)
	keep("example.com", older)
	holds("example.com", want, true)

	// Without dates, they stay unknown.
	bare := Registration{Outcome: "absent", Fetched: noon.Add(time.Minute), Next: noon.Add(time.Hour), Failures: 2}
	keep("example.com", bare)
	holds("example.com", bare, true)

	now = noon.Add(registrationsKept)
	if err := s.PruneRegistrations(t.Context()); err != nil {
		t.Fatal(err)
	}
	holds("example.com", bare, true)
	now = noon.Add(registrationsKept + 2*time.Minute)
	if err := s.PruneRegistrations(t.Context()); err != nil {
		t.Fatal(err)
	}
	holds("example.com", Registration{}, false)
}

func TestRegistrationNamesNoDomain(t *testing.T) {
	t.Parallel()
	s := open(t, postgrestest.Database(t), nil)
	if err := s.KeepRegistration(t.Context(), "secret-project.example", Registration{Outcome: "absent", Fetched: noon,
		Next: noon}); err != nil {
		t.Fatal(err)
	}
	var row []byte
	if err := s.db.NewRaw("SELECT domain FROM registrations").Scan(t.Context(), &row); err != nil {
		t.Fatal(err)
	}
	if len(row) != 32 || bytes.Contains(row, []byte("secret")) {
		t.Errorf("the domain is kept as %q", row)
	}
}
