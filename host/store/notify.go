package store

import (
	"context"
	"encoding/hex"
	"strings"
	"time"

	"assay/host/internal/maintenance"
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
	// TopicErasures is about erased subjects. For a single one, the topic has a suffix, see Erased.
	TopicErasures  Topic = "erasures"
	TopicOverrides Topic = "overrides" // verdicts set in advance
)

// Erased returns the pseudonym of the subject that a topic of erasures names. It is nil if any subject may have been
// erased. ok is false for other topics.
func (t Topic) Erased() (pseudonym []byte, ok bool) {
	name, subject, one := strings.Cut(string(t), " ")
	if name != string(TopicErasures) {
		return nil, false
	}
	if one {
		pseudonym, _ = hex.DecodeString(subject)
	}
	return pseudonym, true
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
		maintenance.Pause(ctx, listenRetryDelay)
	}
}

func (s *Store) listen(ctx context.Context, changed func(Topic)) error {
	conn, err := dial(ctx, s.direct)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	bounded, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if _, err := conn.Exec(bounded, "LISTEN "+channel); err != nil {
		return err
	}
	for _, topic := range []Topic{TopicKeys, TopicLineup, TopicPlugins, TopicCandidates, TopicFeeds, TopicErasures,
		TopicOverrides} {
		changed(topic)
	}
	for {
		wait, cancel := context.WithTimeout(ctx, listenPingInterval)
		n, err := conn.WaitForNotification(wait)
		cancel()
		switch {
		case err == nil:
			s.watched.latest.Store(nil)
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
