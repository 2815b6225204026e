package api

import (
	"context"
	"errors"
	"strings"
	"testing"

	"assay/registry/expect"
)

// auditFiles has the files of chain 3. The chain 9 fails.
type auditFiles struct{}

func (auditFiles) AuditFile(_ context.Context, chain int, path string) ([]byte, bool, error) {
	switch {
	case chain == 9:
		return nil, false, errors.New(secret)
	case chain != 3:
		return nil, false, nil
	case path == "checkpoint":
		return []byte("the checkpoint\n"), false, nil
	case path == "tile/0/x001/067":
		return []byte{0, 1, 2}, true, nil
	case path == "tile/0/000.p/8":
		return []byte{3}, false, nil
	}
	return nil, false, nil
}

func TestAuditFiles(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	const text, hashes = "text/plain; charset=utf-8", "application/octet-stream"
	for path, want := range map[string]struct {
		status         int
		body, kind     string
		cached, absent bool
	}{
		"/audit/checkpoint?chain=3":        {200, "the checkpoint\n", text, false, false},
		"/audit/3/checkpoint":              {200, "the checkpoint\n", text, false, false},
		"/audit/3/tile/0/x001/067":         {200, "\x00\x01\x02", hashes, true, false},
		"/audit/3/tile/0/000.p/8":          {200, "\x03", hashes, false, false},
		"/audit/checkpoint":                {status: 404},
		"/audit/checkpoint?chain=-1":       {status: 400},
		"/audit/checkpoint?chain=x":        {status: 400},
		"/audit/03/checkpoint":             {status: 404},
		"/audit/4294967299/checkpoint":     {status: 404},
		"/audit/3/tile/0/001":              {status: 404},
		"/audit/3/../3/checkpoint":         {status: 404},
		"/audit/3/tile%2f0/x001/067":       {status: 404},
		"/audit/3":                         {status: 404},
		"/audit/9/checkpoint":              {status: 500},
		"/audit/9/tile/entries/000?a=b&c=": {status: 500},
	} {
		r := s.send(t, "GET", path, "")
		expect.That(t, r.status == want.status && (want.status != 200 || r.body == want.body), "%s: %d %q", path,
			r.status, r.body)
		if want.status != 200 {
			continue
		}
		cache := r.header.Get("Cache-Control")
		expect.That(t, r.header.Get("Content-Type") == want.kind && strings.Contains(cache, "immutable") == want.cached,
			"%s: %v", path, r.header)
	}
	r := s.send(t, "POST", "/audit/3/checkpoint", "")
	expect.That(t, r.status == 405 && r.header.Get("Allow") == "GET, HEAD", "POST: %d, %v", r.status, r.header)
}
