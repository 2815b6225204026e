package lineup

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/lineup/fleet"
	"assay/registry/activation"
)

type lineupHostsCmd struct{ terminal.Output }

// Run lists the hosts and the lineup that each runs.
func (cmd *lineupHostsCmd) Run(ctx context.Context, s *installation.Session) error {
	hosts, err := s.Store.Hosts(ctx)
	if err != nil {
		return err
	}
	return s.Show(hosts, func() error { return printHosts(ctx, s, hosts) })
}

func printHosts(ctx context.Context, s *installation.Session, hosts []fleet.Host) error {
	last, err := s.LastActivation(ctx)
	if err != nil {
		return err
	}
	rows := make([][]string, len(hosts))
	for i, h := range hosts {
		state := "running"
		switch {
		case h.Silent():
			state = fmt.Sprintf("silent for %v", h.Unseen.Round(time.Second))
		case h.Problem != "":
			state = fmt.Sprintf("refused activation %d: %s", h.Refused, h.Problem)
		}
		rows[i] = []string{h.Name, h.StartedAt.UTC().Format(time.DateTime), strconv.FormatInt(h.Activation, 10),
			revisions(h, last), state}
	}
	if err := s.Table([]string{"HOST", "STARTED (UTC)", "ACTIVATION", "REVISION", "STATE"}, rows); err != nil {
		return err
	}
	for _, h := range hosts {
		if h.Canary != "" && h.Activation == last.Number {
			s.Printf("\nThe canary on %s: %s.\n", h.Name, h.Canary)
		}
	}
	return nil
}

// revisions returns the revision of the lineup that a host runs, and of its canary if that is known.
func revisions(h fleet.Host, last activation.Activation) string {
	if h.Activation == last.Number && last.Canary != nil {
		return fmt.Sprintf("%d, canary %d (%d%%)", h.Revision, last.Canary.Revision, last.Canary.Share)
	}
	return strconv.FormatInt(h.Revision, 10)
}
