package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"assay/host/audit"
	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/store"
)

type auditLossCmd struct {
	Reason string `placeholder:"TEXT" help:"${audit_loss_reason}"`
	terminal.Output
}

// AcceptedLosses is a result of accept-loss.
type AcceptedLosses struct {
	Losses  []store.FoundLoss `json:"losses"`
	Records map[int]int64     `json:"records"` // numbers of the records that accept them, by chain
}

// Run shows the losses that hosts found, and accepts them if there is a reason.
func (cmd *auditLossCmd) Run(ctx context.Context, c *installation.Command) error {
	if cmd.Reason != "" {
		if err := audit.CheckReason(cmd.Reason); err != nil {
			return fmt.Errorf("--reason: %w", err)
		}
	}
	s, err := c.Open(ctx)
	if err != nil {
		return err
	}
	losses, err := s.Store.Losses(ctx)
	if err != nil {
		return err
	}
	result := AcceptedLosses{Losses: append([]store.FoundLoss{}, losses...), Records: map[int]int64{}}
	if cmd.Reason != "" {
		if result.Records, err = acceptLosses(ctx, s.Store, losses, cmd.Reason); err != nil {
			return err
		}
	}
	return s.Show(result, func() error { result.print(s.Terminal); return nil })
}

// acceptLosses signs and records the acceptance of losses in every chain, because a database is restored as a whole,
// and hosts remember only checks. If it is interrupted, the next call accepts them in every chain again, because the
// chains with losses come last.
func acceptLosses(ctx context.Context, s *store.Store, losses []store.FoundLoss, reason string) (map[int]int64, error) {
	records := map[int]int64{}
	if len(losses) == 0 {
		return records, nil
	}
	heads, err := s.Heads(ctx)
	if err != nil {
		return records, err
	}
	lossesOf := func(h audit.Head) []store.FoundLoss {
		return slices.DeleteFunc(slices.Clone(losses), func(l store.FoundLoss) bool { return l.Chain != h.Chain })
	}
	slices.SortStableFunc(heads, func(a, b audit.Head) int { return len(lossesOf(a)) - len(lossesOf(b)) })
	for _, head := range heads {
		accepted := audit.LossAcceptance{Chain: head.Chain, At: s.Now().UTC(), Reason: reason}
		of := lossesOf(head)
		for i, l := range of {
			accepted.Lost = append(accepted.Lost, l.Head())
			if accepted.Survived = min(accepted.Survived, l.Survived); i == 0 {
				accepted.Survived = l.Survived
			}
		}
		note, err := s.Signer().AcceptLoss(accepted)
		if err == nil {
			records[head.Chain], err = s.AcceptLosses(ctx, head.Chain, of, accepted.Survived, note)
		}
		if err != nil {
			return records, err
		}
	}
	return records, nil
}

func (result AcceptedLosses) print(t *terminal.Terminal) {
	if len(result.Losses) == 0 {
		t.Printf("No host misses records that it answered for.\n")
		return
	}
	for _, l := range result.Losses {
		t.Printf("Host %s answered for record %d of audit chain %d at %s. The database does not contain it.\n", l.Host,
			l.Seq, l.Chain, l.AnsweredAt.Format(time.RFC3339))
		if l.Survived > 0 {
			t.Printf("The database has the host's records up to number %d. These %d are lost:\n", l.Survived,
				len(l.Refs))
		} else {
			t.Printf("The database has none of the records that the host remembers. At least these %d are lost:\n",
				len(l.Refs))
		}
		t.Printf("  %s\n", strings.Join(l.Refs, "\n  "))
		if number := result.Records[l.Chain]; number > 0 {
			t.Printf("The loss is accepted by record %d of audit chain %d.\n", number, l.Chain)
		}
	}
	if len(result.Records) == 0 {
		t.Printf("Hosts refuse checks until a reason is given with --reason.\n")
	} else {
		t.Printf("Hosts answer again within seconds.\n")
	}
}
