package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// Limits of fetching a list.
const (
	fetchTimeout  = 15 * time.Minute
	answerTimeout = 30 * time.Second // until the server answers, and between any two bytes
	fetchAtMost   = 1 << 30          // bytes, packed
	fetchHops     = 5
)

// listSource is a list that is read, and how far.
type listSource struct {
	in    io.Reader
	close func()
	size  int64 // bytes, -1 when it is not known
	read  atomic.Int64
}

func (s *listSource) Read(p []byte) (int, error) {
	n, err := s.in.Read(p)
	if s.read.Add(int64(n)) > fetchAtMost {
		return 0, fmt.Errorf("it is larger than %d MiB", fetchAtMost>>20)
	}
	return n, err
}

// openList opens a file, standard input, or what a URL names.
func openList(ctx context.Context, from string) (*listSource, error) {
	if from == "-" {
		return &listSource{in: os.Stdin, close: func() {}, size: -1}, nil
	}
	if strings.Contains(from, "://") {
		return fetchList(ctx, from, answerTimeout)
	}
	file, err := os.Open(from)
	if err != nil {
		return nil, err
	}
	s := &listSource{in: file, close: func() { _ = file.Close() }, size: -1}
	if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
		s.size = info.Size()
	}
	return s, nil
}

// fetchList asks for a list and reads it as long as bytes come, each within patience of the one before.
func fetchList(ctx context.Context, from string, patience time.Duration) (*listSource, error) {
	at, err := url.Parse(from)
	if err != nil {
		return nil, errors.New("fetching list: it is not a URL")
	}
	if err := safeToFetch(at); err != nil {
		return nil, fmt.Errorf("fetching list: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = answerTimeout
	client := &http.Client{Transport: transport, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if len(via) > fetchHops {
			return errors.New("it leads from one address to the next")
		}
		return safeToFetch(r.URL)
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("fetching list: %w", err)
	}
	request.Header.Set("User-Agent", "assay/"+version)
	response, err := client.Do(request) //nolint:bodyclose // whoever reads the list closes it
	if err != nil {
		cancel()
		return nil, fmt.Errorf("fetching list: %w", redacted(err))
	}
	s := &listSource{
		in: &flowing{in: response.Body, patience: patience, stop: cancel}, size: response.ContentLength,
		close: func() { _ = response.Body.Close(); cancel() },
	}
	if response.StatusCode != http.StatusOK {
		s.close()
		return nil, fmt.Errorf("fetching list: the server answers %s", response.Status)
	}
	return s, nil
}

// errStalled means that a server began to send a list and then hung.
var errStalled = errors.New("the server stopped sending before the list ended")

// flowing is a body that ends with errStalled when nothing comes for longer than patience.
type flowing struct {
	in       io.Reader
	patience time.Duration
	stop     func() // ends the read under way
	stalled  bool
}

func (f *flowing) Read(p []byte) (int, error) {
	if f.stalled {
		return 0, errStalled
	}
	timer := time.AfterFunc(f.patience, f.stop)
	n, err := f.in.Read(p)
	if f.stalled = !timer.Stop(); f.stalled {
		err = errStalled
	}
	return n, err
}

// redacted is a client's error without the URL, which may hold a key.
func redacted(err error) error {
	var failed *url.Error
	if errors.As(err, &failed) {
		return failed.Err
	}
	return err
}

// safeToFetch wants https, since who can alter a list on its way decides what is blocked; on this machine http will do.
func safeToFetch(at *url.URL) error {
	addr := net.ParseIP(at.Hostname())
	switch {
	case at.Scheme == "https", at.Scheme == "http" && (at.Hostname() == "localhost" || addr.IsLoopback()):
		return nil
	case at.Scheme == "http":
		return errors.New("http lets others alter the list on its way: use https, or fetch it yourself and import the file")
	}
	return fmt.Errorf("it cannot be fetched by %q, only by https", at.Scheme)
}

// sourceOf is what is remembered of where a list came from: no user, password or query, which may hold a key.
func sourceOf(from string) string {
	at, err := url.Parse(from)
	if err != nil || !strings.Contains(from, "://") {
		return from
	}
	return (&url.URL{Scheme: at.Scheme, Host: at.Host, Path: at.Path}).String()
}
