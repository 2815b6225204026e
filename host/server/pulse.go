package server

import (
	"log/slog"
	"os"
	"strings"

	"github.com/oklog/ulid/v2"

	"assay/host/installation"
	"assay/host/lineup"
	"assay/host/lineup/canary"
	"assay/host/lineup/fleet"
)

// hostName returns the name of a host that listens on an address, for people.
func hostName(address string) string {
	machine, err := os.Hostname()
	if err != nil {
		machine = "unknown"
	}
	return machine + address[strings.LastIndexByte(address, ':'):]
}

// newPulse returns the pulse that reports this host, its lineup and its canary's outcome to the other hosts.
func newPulse(b *installation.Backend,
	id, name string, follower *lineup.Follower, watch *canary.Watch, log *slog.Logger,
) *fleet.Pulse {
	return &fleet.Pulse{Roster: b.Store, ID: id, Name: name, Log: log,
		Changed: follower.StateChanged(), State: func() fleet.State {
			s := follower.State()
			return fleet.State{Activation: s.Activation, Revision: s.Revision, Refused: s.RefusedActivation,
				Problem: s.Reason, Canary: watch.Summary()}
		}}
}

func newHostID() string { return "host_" + ulid.Make().String() }
