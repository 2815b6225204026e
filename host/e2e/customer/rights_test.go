package customer

import (
	"testing"

	"assay/host/customer/privacy"
	"assay/host/entity"
	"assay/host/hosttest"
	"assay/host/installation"
	"assay/host/store/postgres/postgrestest"
	"assay/registry/expect"
)

// TestHostWorksOnPrivacyRequests makes a request in the database, on which a running host works.
func TestHostWorksOnPrivacyRequests(t *testing.T) {
	t.Parallel()
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	host := hosttest.StartHost(t, dir, database, "--dns=off", "--rdap-url=off")
	b := hosttest.OpenStore(t, dir, database)
	issued := expect.Value(installation.IssueKey(t.Context(), b.Store, installation.Unlimited(), "test"))(t)
	hosttest.CheckOnce(host, issued.Secret, aboutJane)
	caller := expect.Value(b.Store.Authenticate(t.Context(), issued.Secret))(t)
	jane := expect.Value(entity.Parse(entity.Email, janeMail, ""))(t)
	whose := privacy.Selector{Entity: &jane}
	request := expect.Value(b.Store.Begin(t.Context(), caller, privacy.KindErasure, whose))(t)
	hosttest.Repeat(func() bool {
		_, answer := hosttest.Ask(t, host, issued.Secret, "GET", "/gdpr/requests/"+request.ID, "")
		request.State = privacy.State(answer["state"].(string))
		return request.State != privacy.StateRunning
	})
	expect.Equal(t, "state", request.State, privacy.StateDone)
}
