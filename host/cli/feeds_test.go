package cli

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"assay/host/facts/feed"
	"assay/host/hosttest"
	"assay/host/internal/terminal"
	"assay/host/server"
	"assay/host/store/postgres/postgrestest"
	"assay/registry/expect"
)

func TestFeedsCommands(t *testing.T) {
	t.Parallel()
	dir, database := t.TempDir(), postgrestest.Empty(t)
	hosttest.OpenStore(t, dir, database)
	file := filepath.Join(dir, "list.txt")
	write := func(lines ...string) {
		t.Helper()
		expect.NoError(t, os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	}
	importing := []string{"feeds", "import", file, "--name", "CERT Test", "--kind", "bad", "--category", "phishing",
		"--licence", "CC0", "--expires", "30d"}
	write("a.example", "b.example", "# comment", "not an entity")
	got := hosttest.OutputJSON[importResult](t, dir, database, importing...)
	expect.That(t, got.Added == 2 && got.Entries == 2 && got.Malformed == 1 && len(got.First) == 1 &&
		got.First[0].Line == 4 && got.Format == "plain", "first import: %+v", got)
	write("b.example", "c.example")
	got = hosttest.OutputJSON[importResult](t, dir, database, importing...)
	expect.That(t, got.Added == 1 && got.Removed == 1 && got.Entries == 2, "second import: %+v", got)

	// A file that is probably not a list changes nothing.
	write("<html>", "<p>not here</p>", "</html>", "d.example")
	text := hosttest.Fails(t, dir, database, 1, importing, "3 of the 4 items could not be read", "line 1:")
	expect.That(t, !strings.Contains(text, "storing"), "importing an error page: %s", text)
	write("# nothing")
	hosttest.Fails(t, dir, database, 1, importing, "has no entry that could be read", "format plain")
	feeds := hosttest.OutputJSON[[]feed.List](t, dir, database, "feeds", "list")
	expect.That(t, len(feeds) == 1 && feeds[0].Name == "CERT Test" && feeds[0].Entries == 2 && feeds[0].Version == 2 &&
		feeds[0].Licence == "CC0" && feeds[0].Source == file && feeds[0].ExpiresAt != nil &&
		feeds[0].ExpiresAt.Sub(feeds[0].ImportedAt).Round(time.Hour) == 30*24*time.Hour, "lists: %+v", feeds)
	hosttest.Has(t, hosttest.Output(t, dir, database, "feeds", "list"), "CERT Test")
	hosttest.Has(t, hosttest.Output(t, dir, database, "feeds", "withdraw", "CERT Test"), "withdrawn")
	hosttest.Fails(t, dir, database, 1, []string{"feeds", "withdraw", "CERT Test"}, "no list of that name")
	expect.Equal(t, "lists left", len(hosttest.OutputJSON[[]feed.List](t, dir, database, "feeds", "list")), 0)
}

// An operator subscribes to a list, sees its state, accepts a smaller version and unsubscribes.
func TestFeedsSubscribe(t *testing.T) {
	t.Parallel()
	dir, database := t.TempDir(), postgrestest.Empty(t)
	hosttest.OpenStore(t, dir, database)
	var list atomic.Pointer[string]
	publish := func(names int) {
		var text strings.Builder
		for i := range names {
			fmt.Fprintf(&text, "name%d.example\n", i)
		}
		list.Store(new(text.String()))
	}
	publish(300)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", fmt.Sprintf(`"%d"`, len(*list.Load())))
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(*list.Load()))
	}))
	t.Cleanup(server.Close)
	subscribe := []string{"feeds", "subscribe", server.URL + "/list.txt?key=secret", "--name", "Mine", "--kind", "bad",
		"--category", "phishing", "--every", "12h"}
	expect.Equal(t, "first fetch", hosttest.OutputJSON[importResult](t, dir, database, subscribe...).Entries, 300)
	status := func(want feed.State) listStatus {
		t.Helper()
		all := hosttest.OutputJSON[[]listStatus](t, dir, database, "feeds", "status")
		expect.Must(t, len(all) == 1 && all[0].State == want && !strings.Contains(all[0].Source, "secret"),
			"status %+v, want %s", all, want)
		return all[0]
	}
	current := status(feed.Current)
	expect.That(t, current.Every == "12h" && current.FreshUntil.Sub(*current.ConfirmedAt) == 48*time.Hour &&
		current.ExpiresAt.Sub(*current.ConfirmedAt) == 30*24*time.Hour, "status %+v", current)
	publish(10)
	// The version is held back in relation to the one before, also by a new subscription.
	hosttest.Fails(t, dir, database, 1, subscribe, "10 instead of 300")
	status(feed.Held)
	hosttest.Has(t, hosttest.Output(t, dir, database, "feeds", "status"), "feeds accept")
	got := hosttest.OutputJSON[importResult](t, dir, database, "feeds", "accept", "Mine")
	expect.That(t, got.Entries == 10, "accepted: %+v", got)
	status(feed.Current)
	hosttest.Output(t, dir, database, "feeds", "unsubscribe", "Mine")
	expect.Equal(t, "after the end", len(hosttest.OutputJSON[[]listStatus](t, dir, database, "feeds", "status")), 0)
}

func TestFeedsSubscription(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for name, test := range map[string]struct {
		cmd  feedsSubscribeCmd
		want feed.Subscription
		err  string
	}{
		"from the catalogue": {cmd: feedsSubscribeCmd{From: "tranco"}, want: feed.Subscription{Name: "Tranco",
			Kind: feed.Ranked, Format: feed.CSV, Every: day, FreshFor: 4 * day, ExpiresAfter: 30 * day}},
		"renamed, and more often": {
			cmd: feedsSubscribeCmd{From: "CERT-Polska", Name: "PL", Every: listAge(2 * time.Hour)},
			want: feed.Subscription{Name: "PL", Kind: feed.Bad, Format: feed.Plain, Every: 2 * time.Hour, FreshFor: day,
				ExpiresAfter: 30 * day}},
		"a URL": {cmd: feedsSubscribeCmd{From: "https://lists.example/x", Name: "X", Kind: "good"},
			want: feed.Subscription{Name: "X", Kind: feed.Good, Format: feed.Auto, Every: 6 * time.Hour, FreshFor: day,
				ExpiresAfter: 30 * day}},
		"expiring soon": {cmd: feedsSubscribeCmd{From: "https://lists.example/x", Name: "X", Kind: "good",
			Expires: listAge(6 * time.Hour)}, want: feed.Subscription{Name: "X", Kind: feed.Good, Format: feed.Auto,
			Every: 6 * time.Hour, FreshFor: 6 * time.Hour, ExpiresAfter: 6 * time.Hour}},
		"an unknown name":      {cmd: feedsSubscribeCmd{From: "nothing"}, err: "feeds recommend"},
		"a URL without a name": {cmd: feedsSubscribeCmd{From: "https://lists.example/x", Kind: "bad"}, err: "--name"},
		"a URL without a kind": {cmd: feedsSubscribeCmd{From: "https://lists.example/x", Name: "X"}, err: "--kind"},
		"non-commercial":       {cmd: feedsSubscribeCmd{From: "URLhaus"}, err: "--non-commercial"},
		"expiring too soon":    {cmd: feedsSubscribeCmd{From: "Tranco", Expires: listAge(time.Hour)}, err: "--expires"},
		"a threat of good sites": {cmd: feedsSubscribeCmd{From: "https://lists.example/x", Name: "X", Kind: "good",
			Category: "scam"}, err: "--category"},
	} {
		got, err := test.cmd.subscription()
		expect.Outcome(t, name, err, test.err)
		expect.That(t, err != nil || got.Name == test.want.Name && got.Kind == test.want.Kind &&
			got.Format == test.want.Format && got.Every == test.want.Every && got.FreshFor == test.want.FreshFor &&
			got.ExpiresAfter == test.want.ExpiresAfter, "%s: %+v, want %+v", name, got, test.want)
	}
}

// Every list of the catalogue can be subscribed to, and those that forbid commercial use are marked.
func TestFeedsRecommend(t *testing.T) {
	t.Parallel()
	for _, l := range feed.Catalogue() {
		s := expect.Value((&feedsSubscribeCmd{From: l.Name, NonCommercial: true}).subscription())(t)
		expect.That(t, strings.HasPrefix(s.URL, "https://") && s.Licence != "", "%s: %+v", l.Name, s)
	}
	var out, errs bytes.Buffer
	code := Run(t.Context(), []string{"feeds", "recommend"}, &out, &errs)
	expect.That(t, code == 0 && strings.Contains(out.String(), "! abuse.ch terms of use; no commercial use"),
		"exit code %d\n%s%s", code, out.String(), errs.String())
	full := expect.Value(os.OpenFile("/dev/full", os.O_WRONLY, 0))(t)
	expect.Equal(t, "on a full disk", Run(t.Context(), []string{"feeds", "recommend"}, full, &errs), 1)
}

// A running host fetches what an operator subscribed to, and reports what it cannot fetch.
func TestHostFetchesSubscriptions(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "bad.example")
	}))
	t.Cleanup(server.Close)
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	for name, url := range map[string]string{"Alive": server.URL, "Dead": "http://127.0.0.1:1/"} {
		s := expect.Value((&feedsSubscribeCmd{From: url, Name: name, Kind: "bad"}).subscription())(t)
		expect.NoError(t, hosttest.OpenStore(t, dir, database).Store.Subscribe(t.Context(), s))
	}
	host := hosttest.StartHost(t, dir, database)
	const degraded = `"degraded":["list Dead is failing: fetching list: `
	expect.Until(t, "the host to report what it cannot fetch", func() bool {
		return strings.Contains(hosttest.Get(t, host.Admin+"/readyz", ""), degraded)
	})
	for _, want := range []string{`assay_list_entries{list="Alive"} 1`, `assay_list_entries{list="Dead"} 0`,
		`assay_list_fetches_total{list="Dead",outcome="failed"} `, "assay_degraded 1",
		`assay_list_confirmed_timestamp_seconds{list="Alive"}`} {
		expect.Until(t, "/metrics to have "+want, func() bool {
			return strings.Contains(hosttest.Get(t, host.Admin+"/metrics", ""), want)
		})
	}
}

// The greeting says how to subscribe until there is a list.
func TestSuggestLists(t *testing.T) {
	t.Parallel()
	dir, database := t.TempDir(), postgrestest.Empty(t)
	s := hosttest.OpenStore(t, dir, database).Store
	suggestion := func() string {
		var out bytes.Buffer
		expect.NoError(t, server.SuggestLists(t.Context(), &terminal.Terminal{Out: &out}, s))
		return out.String()
	}
	got := suggestion()
	expect.That(t, strings.Contains(got, "assay feeds recommend") && strings.Count(got, "\n") == 1, "without lists: %q",
		got)
	expect.NoError(t, s.Subscribe(t.Context(), expect.Value((&feedsSubscribeCmd{From: "Tranco"}).subscription())(t)))
	expect.Equal(t, "with a subscription", suggestion(), "")
}
