package cli

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/host/access/apikey"
	"assay/host/hosttest"
	"assay/host/store/postgres/postgrestest"
	"assay/registry/expect"
)

// A key with limits is created and rotated on the command line. Its replacement has the same limits and a new lifetime.
func TestKeysWithLimits(t *testing.T) {
	t.Parallel()
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	hosttest.OpenStore(t, dir, database)
	old := hosttest.OutputJSON[apikey.Issued](t, dir, database, "keys", "create", "--scope=privacy,check", "--test",
		"--allow=192.0.2.7,2001:db8::/32", "--expires=90d")
	next := hosttest.OutputJSON[apikey.Issued](t, dir, database, "keys", "rotate", old.ID, "--overlap=2h")
	expect.That(t, strings.HasPrefix(old.Secret, "assay_test_") && strings.HasPrefix(next.Secret, "assay_test_") &&
		next.Account == old.Account && next.Plan == "free", "issued %+v and %+v", old, next)
	keys := hosttest.OutputJSON[[]apikey.Key](t, dir, database, "keys", "list")
	slices.SortFunc(keys, func(a, b apikey.Key) int { return strings.Compare(a.ID, b.ID) })
	for i, want := range []struct {
		id   string
		ends time.Duration
	}{{old.ID, 2 * time.Hour}, {next.ID, 90 * 24 * time.Hour}} {
		k := keys[i]
		expect.That(t, k.ID == want.id && apikey.JoinScopes(k.Scopes) == "check and privacy" && k.Test &&
			len(k.Networks) == 2 && k.ExpiresAt != nil && time.Until(*k.ExpiresAt).Round(time.Hour) == want.ends,
			"key %d is %+v, want %s with the limits, for %v", i, k, want.id, want.ends)
	}
	table := hosttest.Output(t, dir, database, "keys", "list")
	hosttest.Has(t, table, "LAST USED", "EXPIRES\n", "check privacy", "192.0.2.7/32 2001:db8::/32")
}

func TestKeysCreateRefusesLimits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cmd  keysCreateCmd
		want string
	}{
		"no name":        {keysCreateCmd{Name: " "}, "--name: the name must have 1 to 60 visible characters"},
		"a hidden name":  {keysCreateCmd{Name: "a\x1b[2Jb"}, "--name: the name must have 1 to 60"},
		"a long name":    {keysCreateCmd{Name: strings.Repeat("ä", 61)}, "--name: the name must have 1 to 60"},
		"a scope":        {keysCreateCmd{Scope: []string{"check", "admin"}}, `--scope: unknown scope "admin"`},
		"a network":      {keysCreateCmd{Allow: []string{"192.0.2.1/24"}}, "--allow: "},
		"a time":         {keysCreateCmd{Expires: "soon"}, "expires: "},
		"the past":       {keysCreateCmd{Expires: "2020-01-31T08:00:00Z"}, "is not in the future"},
		"no time at all": {keysCreateCmd{Expires: "0s"}, "is not in the future"},
	} {
		c.cmd.Name = cmp.Or(c.cmd.Name, "plain")
		expect.ErrorText(t, name, c.cmd.Validate(), c.want)
	}
	expect.ErrorText(t, "a negative overlap", (&keysRotateCmd{Overlap: -time.Second}).Validate(), "--overlap: ")
	named := &keysCreateCmd{Name: " " + strings.Repeat("ä", 60)}
	expect.Equal(t, "a name", expect.Value(named.wanted(time.Now()))(t).Name, strings.Repeat("ä", 60))
}
