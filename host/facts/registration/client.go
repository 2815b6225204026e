package registration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/openrdap/rdap"
	"github.com/openrdap/rdap/bootstrap"

	"assay/host/facts"
	"assay/host/internet"
)

const (
	maxAnswer    = 512 << 10 // bytes; a domain's answer has some 10 KB, IANA's list of servers some 60 KB
	maxRedirects = 3
	minPause     = time.Minute
	maxPause     = time.Hour
	listPause    = 5 * time.Minute // after IANA's list could not be had
)

var (
	errUnserved = errors.New("no RDAP server serves this suffix")
	errLarge    = fmt.Errorf("the answer is larger than %d bytes", maxAnswer)
)

// pauseError means that the server should be left alone for a while.
type pauseError struct {
	wait time.Duration
	err  error
}

func (e *pauseError) Error() string { return e.err.Error() }
func (e *pauseError) Unwrap() error { return e.err }

// client finds RDAP servers and asks them.
type client struct {
	fixed string // the one server to ask, or ""
	http  *http.Client
	list  *bootstrap.Client // used by one goroutine, the lane without a server
	now   func() time.Time
}

func newClient(base string, servers []string, now func() time.Time) (*client, error) {
	c := &client{now: now}
	var own *url.URL
	if base != "" {
		var err error
		if own, err = url.Parse(base); err != nil || own.Host == "" || own.Scheme != "https" && own.Scheme != "http" {
			return nil, fmt.Errorf("%q is no URL such as https://rdap.example.net/", base)
		}
		c.fixed = base
	}
	c.http = &http.Client{
		Timeout: fetchTimeout,
		Transport: &bounded{&http.Transport{
			Proxy:                  nil, // the guard below must see the address that is dialled
			DialContext:            guardedDial(own, servers),
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
	c.list = &bootstrap.Client{HTTP: c.http}
	return c, nil
}

// guardedDial dials public addresses on the port of https only: what a registry's answer or redirect names must not
// reach into this host's own network. The operator's own server may be anywhere.
func guardedDial(own *url.URL, servers []string) func(context.Context, string, string) (net.Conn, error) {
	resolver := net.DefaultResolver
	if len(servers) > 0 {
		resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, network, servers[0])
		}}
	}
	free := net.Dialer{Resolver: resolver}
	guarded := net.Dialer{Resolver: resolver, Control: func(_, address string, _ syscall.RawConn) error {
		addr, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		if kind := internet.Special(addr.Addr()); kind != "" || addr.Port() != 443 {
			return fmt.Errorf("%s is not a public address on port 443", address)
		}
		return nil
	}}
	ownAddress := ""
	if own != nil {
		ownAddress = net.JoinHostPort(own.Hostname(),
			cmp.Or(own.Port(), map[string]string{"https": "443", "http": "80"}[own.Scheme]))
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == ownAddress {
			return free.DialContext(ctx, network, address)
		}
		return guarded.DialContext(ctx, network, address)
	}
}

// bounded is a transport whose answers end with an error beyond maxAnswer bytes.
type bounded struct{ http.RoundTripper }

func (b *bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		response.Body = &boundedBody{response.Body, maxAnswer}
	}
	return response, err
}

type boundedBody struct {
	io.ReadCloser
	left int
}

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left+1)])
	if b.left -= n; b.left < 0 {
		return 0, errLarge
	}
	return n, err
}

// server returns the base URL of the server that knows domain. Errors: errUnserved, else a *pauseError.
func (c *client) server(ctx context.Context, domain string) (string, error) {
	if c.fixed != "" {
		return c.fixed, nil
	}
	question := (&bootstrap.Question{RegistryType: bootstrap.DNS, Query: domain}).WithContext(ctx)
	answer, err := c.list.Lookup(question)
	if err != nil {
		return "", &pauseError{listPause, fmt.Errorf("finding the registry's RDAP server: %w", err)}
	}
	for _, u := range answer.URLs {
		if u.Scheme == "https" && u.Host != "" {
			return u.String(), nil
		}
	}
	return "", errUnserved
}

// fetch asks a server about domain. A server that wants to be left alone gives a *pauseError.
func (c *client) fetch(ctx context.Context, server, domain string) (Kept, error) {
	base, err := url.Parse(server)
	if err != nil {
		return Kept{}, fmt.Errorf("asking the registry: %w", err)
	}
	request := rdap.NewDomainRequest(domain).WithServer(base).WithContext(ctx)
	asker := rdap.Client{HTTP: c.http, Bootstrap: c.list, UserAgent: "assay"}
	response, err := asker.Do(request)
	var refused *rdap.ClientError
	if errors.As(err, &refused) && refused.Type == rdap.ObjectDoesNotExist {
		return Kept{Outcome: Absent}, nil
	}
	if err != nil {
		err = fmt.Errorf("asking the registry: %w", errors.Join(err, httpError(response)))
		if wait := c.wanted(response); wait > 0 {
			err = &pauseError{wait, err}
		}
		return Kept{}, err
	}
	d, ok := response.Object.(*rdap.Domain)
	if !ok {
		return Kept{}, errors.New("asking the registry: the answer is not about a domain")
	}
	if name := strings.TrimSuffix(d.LDHName, "."); name != "" && !strings.EqualFold(name, domain) {
		return Kept{}, errors.New("asking the registry: the answer is about another domain")
	}
	k := Kept{Outcome: Registered, Registrar: registrar(d), Status: states(d.Status)}
	for _, event := range d.Events {
		switch event.Action {
		case "registration":
			k.Created = c.date(event.Date)
		case "expiration":
			k.Expires = date(event.Date)
		}
	}
	return k, nil
}

// httpError is why the one exchange of a request failed, for the log.
func httpError(r *rdap.Response) error {
	if r == nil || len(r.HTTP) == 0 {
		return nil
	}
	last := r.HTTP[len(r.HTTP)-1]
	if last.Error == nil && last.Response != nil {
		return fmt.Errorf("status %d", last.Response.StatusCode)
	}
	return last.Error
}

// wanted is how long a server that refused wants to be left alone, within bounds: 0 when it does not say so.
func (c *client) wanted(r *rdap.Response) time.Duration {
	if r == nil || len(r.HTTP) == 0 || r.HTTP[len(r.HTTP)-1].Response == nil {
		return 0
	}
	answer := r.HTTP[len(r.HTTP)-1].Response
	switch answer.StatusCode {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusForbidden:
	default:
		return 0
	}
	wait := minPause
	text := answer.Header.Get("Retry-After")
	if seconds, err := strconv.Atoi(text); err == nil {
		wait = time.Duration(min(seconds, int(maxPause.Seconds()))) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		wait = at.Sub(c.now())
	}
	return min(max(wait, minPause), maxPause)
}

// registrar is the name of the registrar among the entities of d.
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

// states are the known words of a registration's status.
func states(all []string) string {
	var kept []string
	for _, s := range all {
		s = strings.ReplaceAll(strings.ToLower(strings.TrimSpace(s)), " ", "_")
		if s != "" && len(s) <= 40 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz_") == "" {
			kept = append(kept, s)
		}
	}
	slices.Sort(kept)
	kept = slices.Compact(kept)
	return strings.Join(kept[:min(len(kept), 16)], " ")
}

// date reads an event's date (RFC 3339), zero when it is none. Where a registry writes the time in a way of its own,
// the day is enough.
func date(text string) time.Time {
	text = strings.TrimSpace(text)
	day := text[:min(len(text), len(time.DateOnly))]
	for _, try := range []struct{ layout, text string }{{time.RFC3339, text}, {"2006-01-02T15:04:05", text},
		{time.DateOnly, day}} {
		if t, err := time.Parse(try.layout, try.text); err == nil && t.Year() >= firstYear && t.Year() < 3000 {
			return t.UTC()
		}
	}
	return time.Time{}
}

// firstYear is that of the first domains.
const firstYear = 1985

// date reads the date of a registration, which cannot lie ahead; a day is left for clocks and zones.
func (c *client) date(text string) time.Time {
	t := date(text)
	if t.After(c.now().Add(24 * time.Hour)) {
		return time.Time{}
	}
	return t
}
