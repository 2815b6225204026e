package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"

	"assay/host/check"
	"assay/host/store"
)

// greeting precedes the host's URL once it is ready.
const greeting = "Assay is ready at "

// adminGreeting precedes the URL for operators, below the greeting.
const adminGreeting = "  admin  "

// greet prints the host's URL, that for operators and how to try it. With the private database it also prints the demo
// key, which is created once and stored in the data directory.
func (cmd *serveCmd) greet(
	ctx context.Context, cfg *Config, t *terminal, b *backend, addr net.Addr, operators net.Listener,
) error {
	url := cfg.scheme() + addr.String()
	t.printf("\n%s%s\n\n", greeting, url)
	if operators != nil {
		t.printf("%shttp://%s\n", adminGreeting, operators.Addr())
	}
	if cfg.testMode() {
		t.printf("  test mode  plans are sold for test cards, and nobody pays\n")
	}
	if err := suggestLists(ctx, t, b.store); err != nil {
		return err
	}
	if b.cluster == nil {
		t.printf("  Create a key with: assay keys create --plan pro\n\n")
		return nil
	}
	key, err := demoKey(ctx, cfg, b.store)
	if err != nil {
		return err
	}
	t.printf("  key  %s\n", key)
	t.printf("  try  curl -H 'Authorization: Bearer %s' -d '{\"domain\":\"paypa1-secure-login.xyz\"}' %s/api/check\n\n",
		key, url)
	return nil
}

// suggestLists prints how to subscribe to lists, unless the host has some.
func suggestLists(ctx context.Context, t *terminal, s *store.Store) error {
	lists, err := s.Feeds(ctx)
	if err != nil || len(lists) > 0 {
		return err
	}
	if subscribed, err := s.Subscriptions(ctx); err != nil || len(subscribed) > 0 {
		return err
	}
	t.printf("  lists  none; to subscribe to some: assay feeds recommend\n")
	return nil
}

func demoKey(ctx context.Context, cfg *Config, s *store.Store) (string, error) {
	file := cfg.path("demo-key")
	if text, err := os.ReadFile(file); err == nil {
		return strings.TrimSpace(string(text)), nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("reading demo key: %w", err)
	}
	plan, _ := check.PlanNamed("pro")
	issued, err := issueKey(ctx, s, plan, "demo")
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(file, []byte(issued.Secret+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("storing demo key: %w", err)
	}
	return issued.Secret, nil
}
