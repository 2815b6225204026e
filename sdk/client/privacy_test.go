package client

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
)

func running(kind string) func(http.ResponseWriter) {
	return respond(202, `{"id":"req_1","kind":"`+kind+`","state":"running"}`)
}

func settled(state string) func(http.ResponseWriter) {
	return respond(200, `{"id":"req_1","kind":"export","state":"`+state+`"}`)
}

// TestBackground checks that exports and erasures wait for what the service does in the background.
func TestBackground(t *testing.T) {
	t.Parallel()
	export := func(c *Client) (string, error) {
		text, err := c.Export(t.Context(), Subject{Email: "a@example.com"})
		return string(text), err
	}
	erase := func(c *Client) (string, error) {
		return "erased", c.Erase(t.Context(), Subject{Ref: "chk_1"})
	}
	const asked, poll, part = "POST /gdpr/export", "GET /gdpr/requests/req_1", "GET /gdpr/requests/req_1/export"
	for name, c := range map[string]struct {
		call    func(*Client) (string, error)
		answers []func(http.ResponseWriter)
		calls   []string
		want    string // or the error
	}{
		"an export at once": {export, []func(http.ResponseWriter){respond(200, `{"checks":[1]}`)},
			[]string{asked}, `{"checks":[1]}`},
		"an export in the background": {export, []func(http.ResponseWriter){
			running("export"), settled("running"), cut, settled("done"),
			respond(200, `{"checks":[1,2],"later":true,"next":"chk_2"}`),
			respond(200, `{"checks":[3],"later":true,"next":null}`)},
			[]string{asked, poll, poll, poll, part, part + "?after=chk_2"},
			`{"checks":[1,2,3],"later":true,"next":null}`},
		"an export without checks": {export, []func(http.ResponseWriter){
			running("export"), settled("done"), respond(200, `{"checks":[],"next":null}`)},
			[]string{asked, poll, part}, `{"checks":[],"next":null}`},
		"an export whose key was revoked": {export, []func(http.ResponseWriter){running("export"), settled("failed")},
			[]string{asked, poll}, "the export req_1 has the state failed"},
		"an erasure at once": {erase, []func(http.ResponseWriter){respond(200, `{"erased":2}`)},
			[]string{"POST /gdpr/erase"}, "erased"},
		"an erasure in the background": {erase, []func(http.ResponseWriter){
			running("erasure"), settled("running"), settled("done")},
			[]string{"POST /gdpr/erase", poll, poll}, "erased"},
		"an unknown subject": {erase, []func(http.ResponseWriter){respond(404, `{"error":"unknown"}`)},
			[]string{"POST /gdpr/erase"}, "status 404: unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, attempts := answers(t, c.answers...)
			got, err := c.call(client)
			if err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			var calls []string
			for _, a := range attempts() {
				calls = append(calls, a.call)
				if post := strings.HasPrefix(a.call, "POST"); post != (a.key != "") || post != (a.body != "") {
					t.Errorf("%s has the key %q and the body %q", a.call, a.key, a.body)
				}
			}
			if got, want := strings.Join(calls, "\n"), strings.Join(c.calls, "\n"); got != want {
				t.Errorf("calls\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// TestWait checks that waiting ends with the client's limit and with the caller's context.
func TestWait(t *testing.T) {
	t.Parallel()
	client, _ := answers(t, running("erasure"))
	client.Wait = 50 * time.Millisecond
	err := client.Erase(t.Context(), Subject{Ref: "chk_1"})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "req_1") {
		t.Errorf("error %v", err)
	}
	client.Wait = time.Minute
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := client.Export(ctx, Subject{Ref: "chk_1"}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// TestReceipt checks that a receipt is asked for again until it has its proof.
func TestReceipt(t *testing.T) {
	t.Parallel()
	promised := respond(200, `{"proof":null}`, "Retry-After", "1")
	client, attempts := answers(t, promised, respond(200, `{"proof":{}}`))
	if got, err := client.Receipt(t.Context(), "chk_1/.."); err != nil || string(got) != `{"proof":{}}` {
		t.Errorf("got %s, %v", got, err)
	}
	if got := attempts(); len(got) != 2 || got[0].call != "GET /api/receipts/chk_1%2F.." || got[0].key != "" {
		t.Errorf("calls %q", got)
	}
	client, _ = answers(t, promised)
	client.Attempts = 1
	if got, err := client.Receipt(t.Context(), "chk_1"); err != nil || string(got) != `{"proof":null}` {
		t.Errorf("without a proof: %s, %v", got, err)
	}
}
