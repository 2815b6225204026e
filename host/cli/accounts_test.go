package cli

import (
	"strings"
	"testing"

	"assay/host/access/apikey"
	"assay/host/access/signin"
	"assay/host/hosttest"
	"assay/host/store/postgres/postgrestest"
	"assay/host/web/console"
	"assay/registry/expect"
)

// TestAccountsCommands creates an account with its code, prints a link that signs in, and signs everybody out.
func TestAccountsCommands(t *testing.T) {
	t.Parallel()
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	s := hosttest.OpenStore(t, dir, database).Store
	issued := hosttest.OutputJSON[struct {
		Account string
		Code    string `json:"sign_in_code"`
	}](t, dir, database, "keys", "create")
	account, err := s.SignInByCode(t.Context(), issued.Code)
	expect.That(t, err == nil && account == issued.Account, "the code %q signs in to %q, %v", issued.Code, account, err)
	text := hosttest.Output(t, dir, database, "keys", "create", "--account", issued.Account)
	expect.That(t, !strings.Contains(text, "code "), "a further key comes with a code:\n%s", text)
	text = hosttest.Output(t, dir, database, "accounts", "sign-in-link", issued.Account,
		"--public-url=https://assay.example/")
	link, _, _ := strings.Cut(text, "\n")
	token, ok := strings.CutPrefix(link, "https://assay.example"+console.LinkPath)
	account, err = s.UseLink(t.Context(), token)
	expect.That(t, ok && err == nil && account == issued.Account, "the link %q signs in to %q, %v", link, account, err)
	text = hosttest.Output(t, dir, database, "accounts", "quota", issued.Account, "--checks", "2000")
	usage, err := s.Usage(t.Context(), issued.Account)
	expect.That(t, err == nil && usage.Plan.Quota == 2000, "%sthe usage is %+v, %v", text, usage, err)
	for command, state := range map[string]apikey.State{"suspend": apikey.Suspended, "resume": apikey.Valid} {
		hosttest.Output(t, dir, database, "accounts", command, issued.Account, "--reason", "chargebacks")
		keys, err := s.Keys(t.Context(), issued.Account)
		expect.That(t, err == nil && keys[0].State == state, "after %s: the keys are %+v, %v", command, keys, err)
	}
	if code, text := hosttest.Failing(t, dir, database, "accounts", "suspend", issued.Account, "--reason",
		"fine\u202e"); code != 2 || !strings.Contains(text, "direction of text") {
		t.Errorf("a reason with a direction mark: exit code %d, printed %s", code, text)
	}
	hosttest.Output(t, dir, database, "accounts", "sign-out", issued.Account)
	expect.Error(t, "after sign-out, the code fails with", expect.ErrorOf(s.SignInByCode(t.Context(), issued.Code)),
		signin.ErrUnknown)
	for _, command := range []string{"sign-in-link acct_nobody", "sign-out acct_nobody", "quota acct_nobody --checks 1",
		"suspend acct_nobody --reason x", "resume acct_nobody --reason x"} {
		args := append([]string{"accounts"}, strings.Fields(command)...)
		code, text := hosttest.Failing(t, dir, database, args...)
		expect.That(t, code == 1 && strings.Contains(text, "there is no such account"), "%s: exit code %d, printed %s",
			command, code, text)
	}
}
