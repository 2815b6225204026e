package api

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"assay/host/access/admission"
	"assay/registry/expect"
)

// A burst of refusals writes one line at once and one a second, which together count all of them.
func TestLogOfRefusalsIsLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := &refusals{log: slog.New(slog.NewTextHandler(&log, nil)), kinds: map[refusalKind]*suppressed{}}
		burst := refusalKind{"/api/check", "share"}
		own := 0
		for range 2500 { // over 2.5 seconds
			if r.admit(burst) {
				own++
			}
			<-time.After(1001 * time.Microsecond) // never at the same instant as a line
		}
		expect.That(t, r.admit(refusalKind{"/api/check", "database"}), "the first refusal of another kind has no line")
		<-time.After(10 * time.Second)
		synctest.Wait()
		expect.Equal(t, "the first refusal of a later burst has a line", r.admit(burst), true)
		r.admit(burst)
		r.close()
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		expect.That(t, own == 1 && len(lines) == 4, "%d lines of requests, and:\n%s", own, log.String())
		for i, want := range []string{"suppressed=999", "suppressed=999", "suppressed=501", "suppressed=1"} {
			expect.That(t, i >= len(lines) || strings.Contains(lines[i], want+"\n") ||
				strings.HasSuffix(lines[i], want), "line %d is %s, want %s", i, lines[i], want)
		}
	})
}

// Refused requests share lines in the access log. Errors with a reference have one each.
func TestRefusedRequestsShareLines(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	const n = 20
	began := time.Now()
	for range n {
		s.ask(t, busyKey, "POST /api/check", exampleBody)
		s.ask(t, failKey, "POST /api/check", exampleBody)
	}
	s.Server.refusals.close()
	log := s.log.String()
	refused := strings.Count(log, `"status":503`)
	most := 2 + 2*int(time.Since(began)/suppressFor) // each begins or ends a second of suppression
	expect.That(t, strings.Contains(log, admission.ErrBusy.Error()) && refused != 0 && refused <= most &&
		strings.Contains(log, `"reason":"door"`), "%d refusals have %d lines:\n%s", n, refused, log)
	expect.Equal(t, "failures", strings.Count(log, `"status":500`), n)
}
