package witness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"golang.org/x/mod/sumdb/note"

	"assay/host/audit"
	"assay/registry/fault"
)

// ErrContradicted means that a witness cosigned a tree that is not the beginning of the submitted one: the log has
// forked, or its database went back and grew again.
var ErrContradicted = errors.New("the witness cosigned another tree")

// AheadError means that a witness cosigned a larger tree than the submitted one. That is normal if another host
// submitted a newer checkpoint. If the log has none of that size, its database went back.
type AheadError struct {
	Witness string // name of its key
	Size    int64  // of the tree that it cosigned
}

func (e *AheadError) Error() string {
	return fmt.Sprintf("witness %s cosigned a tree of %d records, larger than the submitted one", e.Witness, e.Size)
}

// Address is where a witness takes checkpoints, and the key of its signatures.
type Address struct {
	URL string // submission prefix, such as "https://witness.example"
	Key Verifier
}

// ParseAddress parses a submission prefix and a verifier key, separated by a space.
func ParseAddress(text string) (Address, error) {
	prefix, key, _ := strings.Cut(strings.TrimSpace(text), " ")
	u, err := url.Parse(prefix)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.RawQuery != "" || u.User != nil {
		return Address{}, errors.New("a witness does not begin with a URL such as https://witness.example")
	}
	verifier, err := ParseVerifier(strings.TrimSpace(key))
	return Address{prefix, verifier}, err
}

// maxAttempts is how often a checkpoint is submitted if the witness knows sizes other than expected, because hosts of
// one installation may submit at the same time.
const maxAttempts = 3

// Client obtains the cosignatures of one witness for one log.
type Client struct {
	url      string
	verifier Verifier
	http     *http.Client
	known    atomic.Int64 // size of the tree that the witness cosigned last, as far as known
}

// NewClient returns a client of the witness with a submission prefix, such as "https://witness.example", and a key.
func NewClient(prefix string, verifier Verifier, client *http.Client) *Client {
	return &Client{url: strings.TrimSuffix(prefix, "/") + "/add-checkpoint", verifier: verifier, http: client}
}

// Cosign submits a checkpoint and returns the lines of the witness's signatures, which may follow the checkpoint. prove
// returns the proof that the tree of the first old leaves is the beginning of the checkpoint's. The error is
// ErrContradicted or an *AheadError if the witness knows another tree.
func (c *Client) Cosign(ctx context.Context, checkpoint string, prove func(old int64) ([]audit.Hash, error)) (
	lines string, err error) {
	defer fault.WrapAll(&err, "asking witness %s", c.verifier.name)
	text, _, _ := strings.Cut(checkpoint, "\n\n")
	_, head, err := parseHead(text + "\n")
	if err != nil {
		return "", err
	}
	old := min(c.known.Load(), head.Size)
	for range maxAttempts {
		proof, err := prove(old)
		if err != nil {
			return "", err
		}
		status, body, err := c.post(ctx, Request{old, proof, checkpoint})
		if err != nil {
			return "", err
		}
		if status != http.StatusConflict {
			return c.accept(status, body, checkpoint, head.Size)
		}
		size, err := audit.ParseSize(strings.TrimSuffix(body, "\n"))
		switch {
		case err != nil:
			return "", err
		case size == old: // of the same size, with another root
			return "", ErrContradicted
		case size > head.Size:
			return "", &AheadError{c.verifier.name, size}
		}
		old = size
	}
	return "", errors.New("its tree changed with each attempt")
}

// post submits a request and returns the status and the body of the response.
func (c *Client) post(ctx context.Context, r Request) (status int, body string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, strings.NewReader(r.String()))
	if err != nil {
		return 0, "", err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return 0, "", err
	}
	content, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	return response.StatusCode, string(content), errors.Join(err, response.Body.Close())
}

// accept returns the lines of a response that are valid signatures of the witness.
func (c *Client) accept(status int, body, checkpoint string, size int64) (string, error) {
	switch status {
	case http.StatusOK:
	case http.StatusUnprocessableEntity:
		return "", ErrContradicted
	default:
		return "", fmt.Errorf("it answered with status %d", status)
	}
	n, err := note.Open([]byte(checkpoint+body), note.VerifierList(c.verifier))
	if err != nil {
		return "", fmt.Errorf("verifying its signature: %w", err)
	}
	c.known.Store(size)
	var lines strings.Builder
	for _, s := range n.Sigs {
		lines.WriteString(lineOf(s))
	}
	return lines.String(), nil
}
