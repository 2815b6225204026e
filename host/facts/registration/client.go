package registration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/openrdap/rdap"
	"github.com/openrdap/rdap/bootstrap"

	"assay/host/facts"
	"assay/host/internal/internet"
)

const (
	maxBody        = 512 << 10 // bytes; genuine responses are far smaller, including IANA's list of RDAP servers
	maxRedirects   = 3
	minPause       = time.Minute
	maxPause       = time.Hour
	bootstrapPause = 5 * time.Minute // after a failure to fetch IANA's list of RDAP servers
)

var (
	errNoServer = errors.New("the suffix has no RDAP server")
	errTooLarge = fmt.Errorf("the response is larger than %d bytes", maxBody)
)

// pauseError means that the server must not be queried for a while.
type pauseError struct {
	duration time.Duration
	err      error
}

func (e *pauseError) Error() string { return e.err.Error() }
func (e *pauseError) Unwrap() error { return e.err }

// client finds the RDAP servers of domains (RFC 9224) and queries them.
type client struct {
	baseURL   string // the operator's RDAP server, which is used for all domains; "" if there is none
	http      *http.Client
	bootstrap *bootstrap.Client // not safe for concurrent use; only the lane without a server uses it
	now       func() time.Time
}

func newClient(base string, servers []string, now func() time.Time) (*client, error) {
	c := &client{now: now}
	var own *url.URL
	if base != "" {
		var err error
		if own, err = url.Parse(base); err != nil || own.Host == "" || own.Scheme != "https" && own.Scheme != "http" {
			return nil, fmt.Errorf("%q is not a URL such as https://rdap.example.net/", base)
		}
		c.baseURL = base
	}
	c.http = &http.Client{
		Timeout: fetchTimeout,
		Transport: &limitedTransport{&http.Transport{
			Proxy:                  nil, // the dial function must see the address of the RDAP server
			DialContext:            internet.GuardedDial(own, servers),
			TLSHandshakeTimeout:    fetchTimeout,
			ResponseHeaderTimeout:  fetchTimeout,
			MaxResponseHeaderBytes: 16 << 10,
			MaxIdleConns:           16,
			MaxIdleConnsPerHost:    1,
			IdleConnTimeout:        30 * time.Second,
			ForceAttemptHTTP2:      true,
		}},
		CheckRedirect: func(to *http.Request, via []*http.Request) error {
			if len(via) > maxRedirects {
				return errors.New("too many redirects")
			}
			if to.URL.Scheme != "https" && (own == nil || to.URL.Host != own.Host || to.URL.Scheme != own.Scheme) {
				return fmt.Errorf("redirected to %s, which is not https", to.URL.Redacted())
			}
			return nil
		},
	}
	c.bootstrap = &bootstrap.Client{HTTP: c.http}
	return c, nil
}

// limitedTransport makes reading a response's body fail beyond maxBody bytes.
type limitedTransport struct{ http.RoundTripper }

func (t *limitedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.RoundTripper.RoundTrip(r)
	if err == nil {
		response.Body = &limitedBody{response.Body, maxBody}
	}
	return response, err
}

type limitedBody struct {
	io.ReadCloser
	left int
}

func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left+1)])
	if b.left -= n; b.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}

// server returns the base URL of the RDAP server for domain. It returns errNoServer if there is none, and a *pauseError
// if IANA's list cannot be fetched.
func (c *client) server(ctx context.Context, domain string) (string, error) {
	if c.baseURL != "" {
		return c.baseURL, nil
	}
	question := (&bootstrap.Question{RegistryType: bootstrap.DNS, Query: domain}).WithContext(ctx)
	answer, err := c.bootstrap.Lookup(question)
	if err != nil {
		return "", &pauseError{bootstrapPause, fmt.Errorf("fetching the list of RDAP servers: %w", err)}
	}
	for _, u := range answer.URLs {
		if u.Scheme == "https" && u.Host != "" {
			return u.String(), nil
		}
	}
	return "", errNoServer
}

// fetch queries a server about domain (RFC 9082 section 3.1.3). It returns a *pauseError if the server refuses because
// of its rate limit or load.
func (c *client) fetch(ctx context.Context, server, domain string) (Record, error) {
	base, err := url.Parse(server)
	if err != nil {
		return Record{}, fmt.Errorf("querying the registry: %w", err)
	}
	request := rdap.NewDomainRequest(domain).WithServer(base).WithContext(ctx)
	query := rdap.Client{HTTP: c.http, Bootstrap: c.bootstrap, UserAgent: "assay"}
	response, err := query.Do(request)
	if refused, ok := errors.AsType[*rdap.ClientError](err); ok && refused.Type == rdap.ObjectDoesNotExist {
		return Record{Outcome: Absent}, nil
	}
	if err != nil {
		wait, reason := c.refusal(response)
		err = fmt.Errorf("querying the registry: %w", errors.Join(err, reason))
		if wait > 0 {
			err = &pauseError{wait, err}
		}
		return Record{}, err
	}
	d, ok := response.Object.(*rdap.Domain)
	if !ok {
		return Record{}, errors.New("querying the registry: the response is not about a domain")
	}
	if name := strings.TrimSuffix(d.LDHName, "."); name != "" && !strings.EqualFold(name, domain) {
		return Record{}, errors.New("querying the registry: the response is about another domain")
	}
	r := Record{Outcome: Registered, Registrar: registrar(d), Status: status(d.Status)}
	for _, event := range d.Events {
		switch event.Action { // RFC 9083 section 10.2.3
		case "registration":
			r.Created = c.registrationDate(event.Date)
		case "last changed", "transfer", "reregistration":
			if at := c.registrationDate(event.Date); at.After(r.Changed) {
				r.Changed = at
			}
		case "expiration":
			r.Expires = parseDate(event.Date)
		}
	}
	return r, nil
}

// refusal returns why the last HTTP request of a query failed, for the log, and how long to pause if the server refused
// it (RFC 7480 section 5.5): its Retry-After header (RFC 9110 section 10.2.3) between minPause and maxPause. The time
// is 0 if the server did not refuse.
func (c *client) refusal(r *rdap.Response) (wait time.Duration, reason error) {
	if r == nil || len(r.HTTP) == 0 {
		return 0, nil
	}
	last := r.HTTP[len(r.HTTP)-1]
	if last.Response == nil {
		return 0, last.Error
	}
	reason = cmp.Or(last.Error, fmt.Errorf("status %d", last.Response.StatusCode))
	switch last.Response.StatusCode {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusForbidden:
	default:
		return 0, reason
	}
	wait = minPause
	text := last.Response.Header.Get("Retry-After")
	if seconds, err := strconv.Atoi(text); err == nil {
		wait = time.Duration(min(seconds, int(maxPause.Seconds()))) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		wait = at.Sub(c.now())
	}
	return min(max(wait, minPause), maxPause), reason
}

// registrar returns the name of the entity with the role "registrar" (RFC 9083 section 10.2.4), or its handle.
func registrar(d *rdap.Domain) string {
	for _, e := range d.Entities {
		if !slices.Contains(e.Roles, "registrar") {
			continue
		}
		if e.VCard != nil {
			if name := facts.Text(cmp.Or(e.VCard.Name(), e.VCard.Org())); name != "" {
				return name
			}
		}
		return facts.Text(e.Handle)
	}
	return ""
}

// status formats RDAP status values (RFC 9083 section 10.2.2; RFC 8056 for those of EPP). It drops malformed ones and
// returns at most 16.
func status(all []string) string {
	var valid []string
	for _, s := range all {
		s = strings.ReplaceAll(strings.ToLower(strings.TrimSpace(s)), " ", "_")
		if s != "" && len(s) <= 40 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz_") == "" {
			valid = append(valid, s)
		}
	}
	slices.Sort(valid)
	valid = slices.Compact(valid)
	return strings.Join(valid[:min(len(valid), 16)], " ")
}

// firstYear is the year of the first domain registrations.
const firstYear = 1985

// parseDate parses the date of an event (RFC 3339). If only the time is malformed, it returns the day. It returns the
// zero time for invalid and implausible dates.
func parseDate(text string) time.Time {
	text = strings.TrimSpace(text)
	day := text[:min(len(text), len(time.DateOnly))]
	for _, try := range []struct{ layout, text string }{
		{time.RFC3339, text}, {"2006-01-02T15:04:05", text}, {time.DateOnly, day},
	} {
		if t, err := time.Parse(try.layout, try.text); err == nil && t.Year() >= firstYear && t.Year() < 3000 {
			return t.UTC()
		}
	}
	return time.Time{}
}

// registrationDate parses the date of a registration or a change. It returns the zero time for dates more than a day in
// the future; the day allows for wrong clocks and missing time zones.
func (c *client) registrationDate(text string) time.Time {
	t := parseDate(text)
	if t.After(c.now().Add(24 * time.Hour)) {
		return time.Time{}
	}
	return t
}
