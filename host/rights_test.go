package main

import (
	"testing"

	"assay/host/entity"
	"assay/host/postgres/postgrestest"
	"assay/host/privacy"
	"assay/host/store/storetest"
)

// TestHostWorksOnPrivacyRequests makes a request in the database, on which a running host works.
func TestHostWorksOnPrivacyRequests(t *testing.T) {
	t.Parallel()
	dir, database := dataDir(t), postgrestest.Database(t)
	host := startHost(t, dir, database, "--dns=off", "--rdap-url=off")
	b := openStore(t, dir, database)
	issued := storetest.Must(issueKey(t.Context(), b.store, unlimited(), "test"))(t)
	checkOnce(host, issued.Secret, aboutJane)
	caller := storetest.Must(b.store.Authenticate(t.Context(), issued.Secret))(t)
	jane := storetest.Must(entity.Parse(entity.Email, janeMail, ""))(t)
	whose := privacy.Selector{Entity: &jane}
	request := storetest.Must(b.store.Begin(t.Context(), caller, privacy.KindErasure, whose))(t)
	repeat(func() bool {
		_, answer := callPrivacy(t, host, issued.Secret, "GET", "/gdpr/requests/"+request.ID, "")
		request.State = privacy.State(answer["state"].(string))
		return request.State != privacy.StateRunning
	})
	storetest.Expect(t, "state", request.State, privacy.StateDone)
}
