package auditlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"assay/host/audit"
	"assay/host/audit/witness"
	"assay/host/internal/maintenance"
	"assay/host/store"
)

const (
	submitInterval = time.Second // between two looks for new checkpoints
	submitTimeout  = 5 * time.Second
	maxSubmitPause = time.Minute // between attempts that fail
)

// ErrWentBack means that a witness cosigned a tree that is not in the database.
var ErrWentBack = errors.New("the database went back, or records were rewritten")

// Submitter submits the newest checkpoint of each chain to witnesses and stores their signatures. A witness gets one
// request at a time, and only checkpoints that are still the newest. Any number of hosts may submit. The methods are
// safe for concurrent use.
type Submitter struct {
	store   *store.Store
	signer  *audit.Signer
	log     *slog.Logger
	http    *http.Client
	outlets []*outlet
}

// outlet submits checkpoints to one witness.
type outlet struct {
	*Submitter
	witness.Address

	mu     sync.Mutex
	chains map[int]submission
}

// submission is the state of a chain at a witness.
type submission struct {
	client   *witness.Client
	cosigned audit.TreeHead // the last head that it is known to have cosigned
	asked    bool           // it has answered since the host started
	waiting  time.Time      // when the host first saw a checkpoint that the witness has not cosigned; zero: none
	err      error          // of the last attempt
	pause    time.Duration  // after which the next attempt is made
	next     time.Time
}

// NewSubmitter returns a submitter. The names of the witnesses' keys must differ.
func NewSubmitter(s *store.Store, signer *audit.Signer, witnesses []witness.Address, log *slog.Logger) *Submitter {
	submitter := &Submitter{store: s, signer: signer, log: log, http: &http.Client{Timeout: submitTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	for _, w := range witnesses {
		submitter.outlets = append(submitter.outlets, &outlet{Submitter: submitter, Address: w,
			chains: map[int]submission{}})
	}
	return submitter
}

// Run submits checkpoints until ctx ends. Witnesses do not wait for each other.
func (s *Submitter) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	for _, o := range s.outlets {
		running.Go(func() {
			// At a random time, so that mostly one host submits and the others find the signature.
			for wait := rand.N(submitInterval); maintenance.Pause(ctx, wait); wait = submitInterval {
				o.turn(ctx)
			}
		})
	}
}

// Names returns the names of the witnesses' keys.
func (s *Submitter) Names() (names []string) {
	for _, o := range s.outlets {
		names = append(names, o.Key.Name())
	}
	return names
}

// Waiting returns for how long checkpoints have waited for a witness, given the name of its key.
func (s *Submitter) Waiting(name string) (longest time.Duration) {
	for _, o := range s.outlets {
		if o.Key.Name() == name {
			o.each(func(_ int, sub submission) {
				if !sub.waiting.IsZero() {
					longest = max(longest, time.Since(sub.waiting))
				}
			})
		}
	}
	return longest
}

// Delayed returns a sentence for each witness that does not cosign.
func (s *Submitter) Delayed() (sentences []string) {
	for _, o := range s.outlets {
		var chains []string
		var last error
		o.each(func(chain int, sub submission) {
			if sub.err != nil && !errors.Is(sub.err, ErrWentBack) {
				chains, last = append(chains, fmt.Sprint(chain)), sub.err
			}
		})
		if last != nil {
			sentences = append(sentences, fmt.Sprintf("witness %s has not cosigned checkpoints of audit chain %s for "+
				"%v: %v", o.Key.Name(), strings.Join(chains, ", "), s.Waiting(o.Key.Name()).Round(time.Second), last))
		}
	}
	return sentences
}

// Contradicted returns a sentence for each chain and witness that cosigned a tree that is not in the database.
func (s *Submitter) Contradicted() (sentences []string) {
	for _, o := range s.outlets {
		o.each(func(_ int, sub submission) {
			if errors.Is(sub.err, ErrWentBack) {
				sentences = append(sentences, sub.err.Error())
			}
		})
	}
	return sentences
}

// each calls f with the state of each chain, in order.
func (o *outlet) each(f func(chain int, sub submission)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, chain := range slices.Sorted(maps.Keys(o.chains)) {
		f(chain, o.chains[chain])
	}
}

// turn submits the checkpoints that the witness has not cosigned. It must not be called concurrently.
func (o *outlet) turn(ctx context.Context) {
	trees, _ := o.store.Trees(ctx) // signing reports why trees are left out
	for _, chain := range slices.Sorted(maps.Keys(trees)) {
		o.mu.Lock()
		sub := o.chains[chain]
		o.mu.Unlock()
		if sub.asked && sub.err == nil && sub.cosigned == trees[chain].TreeHead || time.Now().Before(sub.next) {
			continue
		}
		if sub.client == nil {
			sub.client = witness.NewClient(o.URL, o.Key, o.http)
		}
		before := sub.err
		sub.err = o.submit(ctx, chain, &sub)
		if ctx.Err() != nil || store.IsOutage(sub.err) {
			return
		}
		sub.schedule()
		o.report(chain, before, sub.err)
		o.mu.Lock()
		o.chains[chain] = sub
		o.mu.Unlock()
	}
}

// schedule sets when the next attempt may be made.
func (sub *submission) schedule() {
	if sub.err == nil {
		sub.pause, sub.next = 0, time.Time{}
		return
	}
	sub.pause = min(max(2*sub.pause, submitInterval), maxSubmitPause)
	sub.next = time.Now().Add(sub.pause)
	if sub.waiting.IsZero() {
		sub.waiting = time.Now()
	}
}

// report logs an error unless the last attempt failed in the same way.
func (o *outlet) report(chain int, before, err error) {
	switch {
	case errors.Is(err, ErrWentBack) && !errors.Is(before, ErrWentBack):
		o.log.Error("the audit log contradicts a witness", "chain", chain, "witness", o.Key.Name(), "error", err)
	case err != nil && before == nil:
		o.log.Warn("a witness does not cosign the audit log", "chain", chain, "witness", o.Key.Name(), "error", err)
	case err == nil && before != nil:
		o.log.Info("a witness cosigns the audit log again", "chain", chain, "witness", o.Key.Name())
	}
}

// submit submits a chain's newest checkpoint and stores the signature, unless another host has. It always submits the
// first one after a start, and a smaller one than before: the witness knows what the database may lack.
func (o *outlet) submit(ctx context.Context, chain int, sub *submission) error {
	head, signed, err := o.newest(ctx, chain)
	if err != nil || head.Size == 0 {
		return err
	}
	if sub.asked && sub.err == nil && head.Size >= sub.cosigned.Size && o.Key.Signed(signed) {
		sub.cosigned, sub.waiting = head, time.Time{}
		return nil
	}
	if sub.waiting.IsZero() {
		sub.waiting = time.Now()
	}
	var unread error // an error of the database while proving
	lines, err := sub.client.Cosign(ctx, o.signer.Own(signed), func(old int64) (proof []audit.Hash, err error) {
		proof, err = audit.ProveConsistency(old, head, reading(ctx, o.store, chain))
		if !errors.Is(err, audit.ErrTiles) {
			unread = err
		}
		return proof, err
	})
	if unread != nil {
		return unread
	}
	if err != nil {
		return o.judge(ctx, chain, err)
	}
	if err := o.store.KeepCosignature(ctx, chain, head.Size, o.Key.Name(), lines); err != nil {
		return err
	}
	sub.asked, sub.cosigned, sub.waiting = true, head, time.Time{}
	return nil
}

// newest returns the newest checkpoint of a chain in the database, or a tree of size 0.
func (o *outlet) newest(ctx context.Context, chain int) (head audit.TreeHead, signed string, err error) {
	signed, err = o.store.NewestCheckpoint(ctx, chain)
	if err != nil || signed == "" {
		return head, "", err
	}
	head, err = o.signer.OpenTree(signed)
	if err == nil && head.Chain != chain {
		err = fmt.Errorf("the newest checkpoint of audit chain %d is one of chain %d", chain, head.Chain)
	}
	return head, signed, err
}

// judge returns what a refusal means for the log. A larger tree at the witness is normal if the database has a newer
// checkpoint by now: another host submitted it.
func (o *outlet) judge(ctx context.Context, chain int, refused error) error {
	var ahead *witness.AheadError
	switch {
	case errors.As(refused, &ahead):
		head, _, err := o.newest(ctx, chain)
		if err != nil || head.Size >= ahead.Size {
			return err
		}
		return fmt.Errorf("witness %s cosigned %d records of audit chain %d, but the newest checkpoint in the "+
			"database has %d: %w", o.Key.Name(), ahead.Size, chain, head.Size, ErrWentBack)
	case errors.Is(refused, witness.ErrContradicted):
		return fmt.Errorf("witness %s cosigned a tree of audit chain %d that is not the beginning of the one in the "+
			"database: %w", o.Key.Name(), chain, ErrWentBack)
	case errors.Is(refused, audit.ErrTiles):
		return fmt.Errorf("the hashes that prove to witness %s that audit chain %d only grew are missing or "+
			"altered: %w", o.Key.Name(), chain, ErrWentBack)
	}
	return errors.New(refused.Error()) // not wrapped: store.IsOutage would mistake it for a database outage
}
