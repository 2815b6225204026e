package facts_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"assay/host/entity"
	"assay/host/facts"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patient = 30 * time.Second

// fake is a source backed by a function.
type fake struct {
	name    string
	observe func(ctx context.Context, wants func(string) bool) (entity.Facts, error)
}

func (f fake) Name() string { return f.name }

func (f fake) Table() []entity.Fact {
	return []entity.Fact{{Name: f.name + ".one", Format: "a number", Example: "1"}}
}

func (f fake) Observe(ctx context.Context, _ entity.Entity, wants func(string) bool) (entity.Facts, error) {
	return f.observe(ctx, wants)
}

func gives(name string, found entity.Facts, err error) fake {
	return fake{name, func(context.Context, func(string) bool) (entity.Facts, error) { return found, err }}
}

func collector(t *testing.T, timeout time.Duration, sources ...facts.Source) *facts.Collector {
	return facts.NewCollector(slog.New(slog.NewTextHandler(t.Output(), nil)), timeout, sources...)
}

func TestCollect(t *testing.T) {
	t.Parallel()
	unasked := fake{"graph", func(context.Context, func(string) bool) (entity.Facts, error) {
		t.Error("a source without wanted facts was queried")
		return nil, nil
	}}
	failed := errors.New("no luck")
	cases := []struct {
		name    string
		sources []facts.Source
		wanted  []string
		found   entity.Facts
		silent  []string
	}{
		{"nothing wanted", []facts.Source{unasked}, nil, entity.Facts{}, nil},
		{"other sources wanted", []facts.Source{gives("dns", entity.Facts{"dns.a": "1"}, nil), unasked},
			[]string{"dns.a", "sky.colour"},
			entity.Facts{"dns.a": "1"}, nil},
		{"more facts than wanted are returned", []facts.Source{gives("dns", entity.Facts{"dns.a": "1", "dns.ns": "2",
			"net.asn": "3", "dns.mx": ""}, nil)},
			[]string{"dns.a", "dns.mx", "net.asn"}, entity.Facts{"dns.a": "1"}, nil},
		{"an error with partial facts", []facts.Source{gives("dns", entity.Facts{"dns.a": "1"}, failed),
			gives("net", nil, nil)},
			[]string{"dns.a", "net.asn"}, entity.Facts{"dns.a": "1"}, []string{"dns"}},
		{"several", []facts.Source{gives("rdap", nil, failed), gives("dns", entity.Facts{"dns.a": "1"}, nil),
			gives("net", entity.Facts{"net.asn": "2"}, nil)},
			[]string{"dns.a", "net.asn", "rdap.created"}, entity.Facts{"dns.a": "1", "net.asn": "2"}, []string{"rdap"}},
		{"a panic", []facts.Source{fake{"dns", func(context.Context, func(string) bool) (entity.Facts,
			error) {
			panic("oh")
		}}, gives("net", entity.Facts{"net.asn": "2"}, nil)},
			[]string{"dns.a", "net.asn"}, entity.Facts{"net.asn": "2"}, []string{"dns"}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			found, silent, err := collector(t, patient, tc.sources...).Collect(t.Context(), entity.Entity{}, tc.wanted)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.found, found); diff != "" {
				t.Errorf("found:\n%s", diff)
			}
			if !slices.Equal(tc.silent, silent) {
				t.Errorf("silent: %v, want %v", silent, tc.silent)
			}
		})
	}
}

// TestLateSources covers a source that returns partial facts when its context ends, and one that ignores its context.
func TestLateSources(t *testing.T) {
	t.Parallel()
	released := make(chan struct{})
	ended := make(chan struct{})
	partly := fake{"dns", func(ctx context.Context, _ func(string) bool) (entity.Facts, error) {
		<-ctx.Done()
		return entity.Facts{"dns.a": "1"}, ctx.Err()
	}}
	deaf := fake{"net", func(context.Context, func(string) bool) (entity.Facts, error) {
		defer close(ended)
		<-released
		return entity.Facts{"net.asn": "late"}, nil
	}}
	found, silent, err := collector(t, 200*time.Millisecond, partly, deaf).Collect(t.Context(), entity.Entity{},
		[]string{"dns.a", "net.asn"})
	if err != nil || !slices.Equal(silent, []string{"dns", "net"}) {
		t.Errorf("silent: %v, error %v", silent, err)
	}
	before := fmt.Sprint(found)
	close(released)
	<-ended
	if after := fmt.Sprint(found); after != before || strings.Contains(after, "late") {
		t.Errorf("the returned facts changed from %s to %s", before, after)
	}
}

// TestHangingSource asserts that a source that never returns is skipped once its slots are used up, and that the others
// are still queried.
func TestHangingSource(t *testing.T) {
	t.Parallel()
	released := make(chan struct{})
	running := make(chan struct{}, 1<<16)
	deaf := fake{"net", func(context.Context, func(string) bool) (entity.Facts, error) {
		running <- struct{}{}
		<-released
		return nil, nil
	}}
	c := collector(t, time.Microsecond, deaf, gives("dns", entity.Facts{"dns.a": "1"}, nil))
	const most = 2048
	for range most + 100 {
		_, silent, err := c.Collect(t.Context(), entity.Entity{}, []string{"net.asn"})
		if err != nil || !slices.Equal(silent, []string{"net"}) {
			t.Fatalf("silent: %v", silent)
		}
	}
	for range most {
		<-running
	}
	_, silent, err := c.Collect(t.Context(), entity.Entity{}, []string{"net.asn"})
	if err != nil || !slices.Equal(silent, []string{"net"}) {
		t.Errorf("silent %v, error %v", silent, err)
	}
	select {
	case <-running:
		t.Error("more observations are running than allowed")
	default:
	}
	close(released)
}

func TestText(t *testing.T) {
	t.Parallel()
	cases := map[string]string{
		"NameSilo, LLC":              "NameSilo, LLC",
		" a\tb\x00c\n\u202ed\u2028 ": "a b c d",
		"\xff\xfeO\u0308":            "O\u0308",
		strings.Repeat("é", 50):      strings.Repeat("é", 40),
		"":                           "",
	}
	for in, want := range cases {
		if got := facts.Text(in); got != want {
			t.Errorf("Text(%q) = %q, want %q", in, got, want)
		}
	}
}
