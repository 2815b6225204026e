package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"assay/host/lineup/fleet"
)

// TopicCandidates is about the lineups that hosts are asked to prepare.
const TopicCandidates Topic = "candidates"

// Limits on the candidates that hosts read, which anyone with access to the database can write: only the newest ones,
// none longer than two lineups may be.
const (
	maxCandidates     = 32
	maxCandidateBytes = 512 << 10
)

// candidateLife is how long a candidate is kept ready after its command last extended it.
const candidateLife = 30 * time.Second

var (
	_ fleet.Roster = (*Store)(nil)
	_ fleet.Store  = (*Store)(nil)
)

// BeatHost implements fleet.Roster.
func (s *Store) BeatHost(ctx context.Context, id, name string, state fleet.State) (alive int, err error) {
	err = query(s.db, "beat_host", named{"id": id, "name": name, "activation": state.Activation,
		"revision": state.Revision, "refused": state.Refused, "problem": state.Problem, "canary": state.Canary,
		"silent": fleet.SilentAfter.String()}).Scan(ctx, &alive)
	s.watched.alive.Store(int64(alive))
	return alive, wrap(err, "writing host")
}

// ReportShadow implements fleet.Roster.
func (s *Store) ReportShadow(ctx context.Context, id string, report json.RawMessage) error {
	_, err := s.db.NewRaw("UPDATE hosts SET shadow = ?::jsonb WHERE id = ?", string(report), id).Exec(ctx)
	return wrap(err, "writing what shadow layers found")
}

// ShadowReports returns the latest shadow reports of all hosts, including silent ones.
func (s *Store) ShadowReports(ctx context.Context) (reports []json.RawMessage, err error) {
	err = s.db.NewRaw("SELECT shadow FROM hosts WHERE shadow IS NOT NULL ORDER BY id").Scan(ctx, &reports)
	return reports, wrap(err, "reading what shadow layers found")
}

// RemoveHost implements fleet.Roster.
func (s *Store) RemoveHost(ctx context.Context, id string) error {
	_, err := s.db.NewRaw("DELETE FROM hosts WHERE id = ?", id).Exec(ctx)
	return wrap(err, "removing host")
}

// Hosts implements fleet.Store.
func (s *Store) Hosts(ctx context.Context) ([]fleet.Host, error) {
	hosts := []fleet.Host{}
	err := s.db.NewRaw(`SELECT id, name, started_at, (extract(epoch FROM now() - seen_at) * 1e9)::bigint AS unseen,
		activation, revision, refused, problem, canary FROM hosts ORDER BY name, started_at`).Scan(ctx, &hosts)
	return hosts, wrap(err, "reading hosts")
}

// Propose implements fleet.Store.
func (s *Store) Propose(ctx context.Context, c fleet.Candidate) error {
	if len(c.Signed)+len(c.Document) > maxCandidateBytes {
		return fmt.Errorf("proposing lineup: it has more than %d bytes", maxCandidateBytes)
	}
	_, err := s.db.NewRaw(`WITH added AS (INSERT INTO candidates (id, signed, document, expires)
			VALUES (?, nullif(?, ''), nullif(?, ''), now() + ?::interval))
		SELECT pg_notify(?, ?)`, c.ID, c.Signed, c.Document, candidateLife.String(), channel, TopicCandidates).Exec(ctx)
	return wrap(err, "proposing lineup")
}

// ExtendCandidate implements fleet.Store.
func (s *Store) ExtendCandidate(ctx context.Context, id string) error {
	_, err := s.db.NewRaw("UPDATE candidates SET expires = now() + ?::interval WHERE id = ?",
		candidateLife.String(), id).Exec(ctx)
	return wrap(err, "extending candidate")
}

// WithdrawCandidate implements fleet.Store.
func (s *Store) WithdrawCandidate(ctx context.Context, id string) error {
	_, err := s.db.NewRaw("WITH gone AS (DELETE FROM candidates WHERE id = ?) SELECT pg_notify(?, ?)", id, channel,
		TopicCandidates).Exec(ctx)
	return wrap(err, "withdrawing candidate")
}

// Candidates lists the newest candidates that have not expired, oldest first.
func (s *Store) Candidates(ctx context.Context) (candidates []fleet.Candidate, err error) {
	if seen := s.unchanged(); seen != nil && seen.Candidates == 0 {
		return nil, nil
	}
	err = s.db.NewRaw(`SELECT id, coalesce(signed, '') AS signed, coalesce(document, '') AS document FROM candidates
		WHERE expires > now() AND octet_length(coalesce(signed, document)) <= ? ORDER BY made_at DESC, id DESC LIMIT ?`,
		maxCandidateBytes, maxCandidates).Scan(ctx, &candidates)
	slices.Reverse(candidates)
	return candidates, wrap(err, "reading candidates")
}

// Answer stores a host's answer about a candidate, unless the candidate has ended.
func (s *Store) Answer(ctx context.Context, a fleet.Answer) error {
	var report *string
	if a.Report != nil {
		report = new(string(a.Report))
	}
	_, err := query(s.db, "answer_candidate", named{"candidate": a.Candidate, "host": a.Host,
		"state": string(a.Progress), "reason": a.Reason, "report": report}).Exec(ctx)
	return wrap(err, "answering a candidate")
}

// Answers implements fleet.Store.
func (s *Store) Answers(ctx context.Context, candidate string) ([]fleet.Answer, error) {
	answers := []fleet.Answer{}
	err := s.db.NewRaw(`SELECT candidate, host, state AS progress, reason, report FROM candidate_hosts
		WHERE candidate = ? ORDER BY host`, candidate).Scan(ctx, &answers)
	return answers, wrap(err, "reading answers")
}
