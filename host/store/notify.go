package store

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"
)

// channel is the Postgres notification channel that all hosts listen on.
const channel = "assay"

// Topic names the data that a notification is about.
type Topic string

// The topics.
const (
	TopicKeys    Topic = "keys"    // keys and accounts
	TopicLineup  Topic = "lineup"  // the lineup in force
	TopicPlugins Topic = "plugins" // published plugins
)

// notify sends a notification to every host when the transaction commits.
func notify(ctx context.Context, tx bun.Tx, topic Topic) error {
	if _, err := tx.ExecContext(ctx, "SELECT pg_notify(?, ?)", channel, string(topic)); err != nil {
		return fmt.Errorf("notifying hosts: %w", err)
	}
	return nil
}

const (
	listenRetryDelay   = 500 * time.Millisecond
	listenPingInterval = 20 * time.Second
)

// Listen calls changed for every notification until ctx ends. Notifications are lost while the connection is down, so
// Listen calls changed for every topic after each (re)connection. Callers should poll as well.
func (s *Store) Listen(ctx context.Context, changed func(Topic)) {
	for ctx.Err() == nil {
		err := s.listen(ctx, changed)
		if ctx.Err() != nil {
			return
		}
		s.log.Warn("connection for notifications was lost", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(listenRetryDelay):
		}
	}
}

func (s *Store) listen(ctx context.Context, changed func(Topic)) error {
	conn, err := dial(ctx, s.direct)
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
	changed(TopicFeeds)
	for {
		wait, cancel := context.WithTimeout(ctx, listenPingInterval)
		n, err := conn.WaitForNotification(wait)
		cancel()
		switch {
		case err == nil:
			changed(Topic(n.Payload))
		case ctx.Err() != nil:
			return ctx.Err()
		case wait.Err() != nil:
			// A dead connection looks the same as one without notifications, so ping it.
			alive, cancel := context.WithTimeout(ctx, connectTimeout)
			err := conn.Ping(alive)
			cancel()
			if err != nil {
				return err
			}
		default:
			return err
		}
	}
}
