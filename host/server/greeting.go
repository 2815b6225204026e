package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"assay/host/check"
	"assay/host/installation"
	"assay/host/internal/durable"
	"assay/host/internal/private"
	"assay/host/internal/terminal"
	"assay/host/store"
)

// ReadURL reads a host's output up to the line that begins with prefix, such as greeting, and returns its URL.
func ReadURL(lines *bufio.Scanner, prefix string) (string, error) {
	for lines.Scan() {
		if url, ok := strings.CutPrefix(lines.Text(), prefix); ok {
			return url, nil
		}
	}
	return "", errors.New("the host did not become ready")
}

// Greeting precedes the host's URL once it is ready.
const Greeting = "Assay is ready at "

// AdminGreeting precedes the URL for operators, below the greeting.
const AdminGreeting = "  admin  "

// greet prints the host's URL, the URL for operators, and how to try the host. With the private database it also prints
// the demo key, which is created once and stored in the data directory.
func (h *host) greet(ctx context.Context) error {
	url, t := h.cfg.Scheme()+h.listener.Addr().String(), h.terminal
	t.Printf("\n%s%s\n\n", Greeting, url)
	if h.operators != nil {
		t.Printf("%shttp://%s\n", AdminGreeting, h.operators.Addr())
	}
	if h.cfg.TestMode() {
		t.Printf("  test mode  plans are sold for test cards, and nobody pays\n")
	}
	if err := SuggestLists(ctx, t, h.store); err != nil {
		return err
	}
	if h.backend.Cluster == nil {
		t.Printf("  Create a key with: assay keys create --plan pro\n\n")
		return nil
	}
	key, err := demoKey(ctx, h.cfg, h.store)
	if err != nil {
		return err
	}
	t.Printf("  key  %s\n  dashboard  assay accounts sign-in-link ACCOUNT, which 'assay keys list' names\n", key)
	t.Printf("  try  curl -H 'Authorization: Bearer %s' -d '{\"domain\":\"paypa1-secure-login.xyz\"}' %s/api/check\n\n",
		key, url)
	return nil
}

// SuggestLists prints how to subscribe to lists, unless the host has some.
func SuggestLists(ctx context.Context, t *terminal.Terminal, s *store.Store) error {
	lists, err := s.Feeds(ctx)
	if err != nil || len(lists) > 0 {
		return err
	}
	if subscribed, err := s.Subscriptions(ctx); err != nil || len(subscribed) > 0 {
		return err
	}
	t.Printf("  lists  none; to subscribe to some: assay feeds recommend\n")
	return nil
}

func demoKey(ctx context.Context, cfg *installation.Config, s *store.Store) (string, error) {
	file := cfg.Path("demo-key")
	if text, err := private.Read(file); err == nil {
		return strings.TrimSpace(string(text)), nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("reading demo key: %w", err)
	}
	plan, _ := check.PlanNamed("pro")
	issued, err := installation.IssueKey(ctx, s, plan, "demo")
	if err != nil {
		return "", err
	}
	if err := durable.WriteFile(file, []byte(issued.Secret+"\n")); err != nil {
		return "", fmt.Errorf("storing demo key: %w", err)
	}
	return issued.Secret, nil
}
