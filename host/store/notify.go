package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/uptrace/bun"
)

// channel is the Postgres notification channel of all hosts.
const channel = "assay"

// Topic says what has changed.
type Topic string

// The topics.
const (
	TopicKeys    Topic = "keys"    // keys or accounts
	TopicLineup  Topic = "lineup"  // the lineup in force
	TopicPlugins Topic = "plugins" // a plugin was published
)

// notify tells every host once the transaction has committed.
func notify(ctx context.Context, tx bun.Tx, topic Topic) error {
	if _, err := tx.ExecContext(ctx, "SELECT pg_notify(?, ?)", channel, string(topic)); err != nil {
		return fmt.Errorf("notifying hosts: %w", err)
	}
	return nil
}

// The listener's patience.
const (
	listenRetry     = 500 * time.Millisecond
	listenKeepAlive = 20 * time.Second
)

// Listen calls changed for every notification until ctx ends. A notification is a hint: some are lost while the
// connection is down, so after each (re)connection changed is called for every topic, and callers poll besides.
func (s *Store) Listen(ctx context.Context, changed func(Topic)) {
	for ctx.Err() == nil {
		err := s.listen(ctx, changed)
		if ctx.Err() != nil {
			return
		}
		s.log.Warn("listening for changes was cut off", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(listenRetry):
		}
	}
}

func (s *Store) listen(ctx context.Context, changed func(Topic)) error {
	cfg, err := connConfig(s.url)
	if err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return err
	}
	changed(TopicKeys)
	changed(TopicLineup)
	changed(TopicPlugins)
	for {
		wait, cancel := context.WithTimeout(ctx, listenKeepAlive)
		n, err := conn.WaitForNotification(wait)
		cancel()
		switch {
		case err == nil:
			changed(Topic(n.Payload))
		case ctx.Err() != nil:
			return ctx.Err()
		case wait.Err() != nil:
			// Nothing came: see whether the connection still lives, for a dead one is silent too.
			if err := conn.Ping(ctx); err != nil {
				return err
			}
		default:
			return err
		}
	}
}
