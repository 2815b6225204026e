package cli

import (
	"testing"

	"assay/host/hosttest"
	"assay/host/store/postgres/postgrestest"
)

// TestCommandsOnAHost runs commands next to a host, one after the other.
func TestCommandsOnAHost(t *testing.T) {
	t.Parallel()
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	host := hosttest.StartHost(t, dir, database, hosttest.AllowLoopback)
	for name, test := range map[string]func(t *testing.T, host *hosttest.HostProcess, dir, database string){
		"graph": testGraphForget, "privacy": testPrivacyOfOperator, "feedback": testFeedbackOfACustomer,
		"overrides": testOverrides, "webhooks": testWebhooks,
	} {
		t.Run(name, func(t *testing.T) { test(t, host, dir, database) })
	}
	hosttest.Output(t, dir, database, "audit", "verify")
}
