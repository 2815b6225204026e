package api

import (
	"fmt"
	"net"
	"regexp"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
)

// requestHeader carries the id of a request in every response. Support finds the log line by it. The host makes the id
// itself, because clients' ids could repeat and contain anything.
const requestHeader = "X-Request-Id"

// clientIDs are the ids that a client or a proxy gives a request. They are only logged, so that a request can be found
// in both logs. Anything that does not look like an id, such as an email address, is left out.
var clientIDs = []struct {
	header, attr string
	form         *regexp.Regexp
}{
	{requestHeader, "client_request_id", regexp.MustCompile(`^[A-Za-z0-9._:/+=-]{1,128}$`)},
	{"Traceparent", "traceparent", regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)},
}

func newRequestID() string { return "req_" + ulid.Make().String() }

// writeRefusal writes a complete response to a connection whose request is not read, with the headers that every
// response has. further are header lines that end with CRLF.
func writeRefusal(c net.Conn, status, further, code, text string) error {
	id := newRequestID()
	body := fmt.Sprintf(`{"error":%q,"code":%q,"request_id":%q}`, text, code, id)
	_, err := fmt.Fprintf(c, "HTTP/1.1 %s\r\nConnection: close\r\n%sContent-Type: application/json\r\n"+
		"X-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n%s: %s\r\nContent-Length: %d\r\n\r\n%s",
		status, further, requestHeader, id, len(body), body)
	return err
}

// timingHeader asks for Server-Timing if it is 1.
const timingHeader = "X-Service-Timing"

// timing collects the durations of a request's parts. A check is one part, because the duration of its lookups would
// reveal more about other customers' recent checks.
type timing struct{ parts []string }

// part starts to measure a part of the request until its result is called. Both do nothing unless the client asked for
// timing.
func (x *exchange) part(name string) (end func()) {
	if x == nil || x.timing == nil {
		return func() {}
	}
	began := time.Now()
	return func() { x.timing.parts = append(x.timing.parts, metric(name, time.Since(began))) }
}

// header returns the value of Server-Timing for a request that took total.
func (t *timing) header(total time.Duration) string {
	return strings.Join(append(t.parts, metric("total", total)), ", ")
}

func metric(name string, took time.Duration) string {
	return fmt.Sprintf("%s;dur=%.3f", name, float64(took.Microseconds())/1000)
}
