package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"assay/host/check"
	"assay/host/cli/measurement"
	"assay/host/entity"
	"assay/host/hosttest"
	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/measure/eval"
	"assay/host/sandbox"
	"assay/host/store"
	"assay/host/store/postgres/postgrestest"
	"assay/registry/expect"
)

// AsCommands is the variable that makes the test binary run many assay commands, one after another.
const AsCommands = "ASSAY_TEST_AS_COMMANDS"

// commandRun is a command line and what it did.
type commandRun struct {
	Args   []string
	Code   int
	Output string   // standard output and standard error
	Files  []string // of the working directory, afterwards
}

// RunCommands runs the command lines that it reads from in, and writes what they did to out.
func RunCommands(ctx context.Context, in io.Reader, out io.Writer) error {
	var runs []commandRun
	if err := json.NewDecoder(in).Decode(&runs); err != nil {
		return err
	}
	for i := range runs {
		r := &runs[i]
		var printed bytes.Buffer
		r.Code = Run(ctx, r.Args, &printed, &printed)
		r.Output = printed.String()
		entries, err := os.ReadDir(".")
		if err != nil {
			return err
		}
		for _, e := range entries {
			r.Files = append(r.Files, e.Name())
		}
	}
	return json.NewEncoder(out).Encode(runs)
}

// RunInEmptyFolder runs command lines in a new folder, and returns what each did.
func RunInEmptyFolder(t *testing.T, commands [][]string, env ...string) []commandRun {
	t.Helper()
	runs := make([]commandRun, len(commands))
	for i, args := range commands {
		runs[i].Args = args
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Dir = t.TempDir()
	cmd.Env = append([]string{AsCommands + "=1", "PATH=" + os.Getenv("PATH"), "ASSAY_DNS=off"}, env...)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(expect.Value(json.Marshal(runs))(t)), t.Output()
	expect.NoError(t, json.Unmarshal(expect.Value(cmd.Output())(t), &runs))
	return runs
}

// commandNames returns the names of all commands, such as "keys create".
func commandNames(t *testing.T) []string {
	t.Helper()
	parser := expect.Value(newParser(&cli{}))(t)
	var names []string
	for _, leaf := range parser.Model.Leaves(false) {
		name := []string{}
		for node := leaf; node.Type == kong.CommandNode; node = node.Parent {
			name = append([]string{node.Name}, name...)
		}
		names = append(names, strings.Join(name, " "))
	}
	return names
}

// Commands that need an installation say so in a folder without one, and none makes one.
func TestCommandsWithoutInstallation(t *testing.T) {
	t.Parallel()
	const needed = "there is no installation in .assay (ASSAY_DATA_DIR): run `assay serve` there first"
	rows := hosttest.WriteFile(t, "rows.jsonl", []byte(hosttest.Labelled))
	lineup := hosttest.WriteFile(t, "lineup.json", []byte(`{"bias":-4,"bands":{"review":40,"block":70},"layers":[
		{"layer":"empty@1.0.0","weight":1}]}`))
	plugin := filepath.Join(t.TempDir(), "empty")
	expect.NoError(t, os.Mkdir(plugin, 0o700))
	expect.NoError(t, os.WriteFile(filepath.Join(plugin, "manifest.json"), []byte(`{"name":"empty",
		"version":"1.0.0","summary":"Empty","threats":[],"budget_fuel":1000,"memory_mb":1,"default_weight":1,
		"entities":["domain"],"facts":[],"signals":[]}`), 0o600))
	wasm := hosttest.WriteFile(t, "empty.wasm", []byte(hosttest.EmptyLayer))
	type outcome struct {
		args string // after the command's name
		want string // part of the output of a command that fails; "" if it succeeds
	}
	none := outcome{"", needed}
	commands := map[string]outcome{
		"serve": {}, // makes an installation: see TestFirstRun
		"help":  {}, "config": {},

		"check": {"paypal.com", needed + ", or name another folder; there are no built-in layers"},
		"eval":  {rows, needed + ", or name another folder; there are no built-in layers"},
		"bench": {"", "there are no built-in layers"},

		"accounts sign-in-link": {"acct_1", needed}, "accounts sign-out": {"acct_1", needed},
		"accounts quota": {"acct_1 --checks 1", needed},
		"privacy export": {"jane@example.com", needed}, "privacy erase": {"jane@example.com", needed},
		"accounts suspend": {"acct_1 --reason x", needed}, "accounts resume": {"acct_1 --reason x", needed},

		"keys create": none, "keys list": none, "keys revoke": {"key_1", needed}, "keys rotate": {"key_1", needed},

		"webhooks set":  {"acct_1 --url https://receiver.example/", needed},
		"webhooks list": none, "webhooks resend": {"chk_1", needed}, "webhooks test": {"acct_1", needed},
		"webhooks rotate": {"acct_1", needed}, "webhooks enable": {"acct_1", needed},
		"webhooks remove": {"acct_1", needed},

		"overrides add":  {"block --domain bad.example --reason fraud --expires 30d", needed},
		"overrides list": none, "overrides remove": {"ovr_1", needed},

		"lineup show": none, "lineup set": {lineup, needed}, "lineup diff": {lineup, needed},
		"lineup canary": {lineup + " --share 5%", needed}, "lineup promote": none, "lineup rollback": none,
		"lineup shadow": none, "lineup hosts": none,
		"lineup fit": {rows, needed + ", or name another folder; there are no built-in layers"},
		"lineup key": {filepath.Join(t.TempDir(), "operator.key"), ""},

		"layers list": none, "layers show": {"domain", needed},
		"plugin new":   {"x", `name "x" must be 2 to 40 characters`},
		"plugin sdk":   {plugin, "has none of layer.c, layer.rs, layer.ts, main.go"},
		"plugin build": {plugin + " --wasm " + wasm + " -o " + filepath.Join(t.TempDir(), "empty.wasm"), ""},
		"plugin test":  {wasm, "it has no section assay.manifest"}, "plugin run": {wasm + " x.de", "it has no section"},
		"plugin inspect": {wasm, "it has no section"}, "plugin bench": {wasm, "it has no section"},
		"plugin eval": {wasm + " " + rows, "it has no section"}, "plugin facts": {"paypal.com", ""},
		"train lexical": {rows + " --as 1.0.0", "there are no built-in layers"},
		"plugin dev":    {"x", needed}, "plugin promote": {"x", needed}, "plugin retire": {"x", needed},
		"plugin transfer": {"x --to release", needed},
		"plugin key":      {filepath.Join(t.TempDir(), "publisher.key"), ""},
		"plugin sign":     {wasm, "it has no section"}, "plugin verify": {wasm, "it has no section"},
		"plugin push": {wasm, "it has no section"},
		"plugin pull": {"127.0.0.1:1/empty:1.0.0", "the trust file .assay/trust does not exist"},

		"feeds recommend": {}, "feeds subscribe": {"URLhaus --non-commercial", needed},
		"feeds unsubscribe": {"URLhaus", needed}, "feeds status": none, "feeds accept": {"URLhaus", needed},
		"feeds import": {"https://lists.example/list.txt --name A --kind bad", needed},
		"feeds list":   none, "feeds withdraw": {"URLhaus", needed},

		"graph forget": {"paypal.com", needed}, "feedback signals": none,

		"audit verify": none, "audit checkpoint": none, "audit export": {"export.jsonl", needed},
		"audit verify-receipt": {rows + " --public-key " + rows, "reading verifier key"}, "audit accept-loss": none,
		"database distribute": none,
		"secret rotate":       none, "secret list": none, "secret reseal": none, "secret remove": {"2", needed},
		"secret delegate": none, "secret key": {filepath.Join(t.TempDir(), "key"), ""},
		"secret sign": {"missing", "open missing: no such file"}, "database exec": {"true", needed},

		"witness": {"--name one.example --state state --trust missing", "open missing: no such file"},

		"compile": {"", "EOF"}, "measure": {"", "EOF"}, // are started by hosts, and read from standard input
	}
	var lines, help [][]string
	var wants []string
	for _, name := range commandNames(t) {
		c, ok := commands[name]
		if !ok {
			t.Errorf("this test has no arguments for the command %q", name)
			continue
		}
		delete(commands, name)
		help = append(help, append(strings.Fields(name), "--help"))
		if name != "serve" {
			lines = append(lines, append(strings.Fields(name), strings.Fields(c.args)...))
			wants = append(wants, c.want)
		}
	}
	for name := range commands {
		t.Errorf("there is no command %q", name)
	}
	ends := func(r commandRun, code int, want string) {
		t.Helper()
		expect.That(t, r.Code == code && strings.Contains(r.Output, want),
			"assay %s: exit code %d, want %d and %q:\n%s", strings.Join(r.Args, " "), r.Code, code, want, r.Output)
		expect.Must(t, len(r.Files) == 0, "assay %s left %q in an empty folder", strings.Join(r.Args, " "), r.Files)
	}
	for i, r := range RunInEmptyFolder(t, lines) {
		code := 1
		if wants[i] == "" {
			code = 0
		}
		ends(r, code, wants[i])
	}
	for _, r := range RunInEmptyFolder(t, help) {
		ends(r, 0, "assay "+r.Args[0])
	}
}

// Commands that could do without an installation do not give other answers if one is named that does not exist.
func TestNamedInstallation(t *testing.T) {
	t.Parallel()
	check := func(runs []commandRun) {
		t.Helper()
		for _, r := range runs {
			expect.That(t, r.Code == 1 && strings.Contains(r.Output, installation.ErrNoInstallation.Error()+" in ") &&
				!strings.Contains(r.Output, "built-in") && len(r.Files) == 0, "assay %q: exit code %d, files %q\n%s",
				r.Args, r.Code, r.Files, r.Output)
		}
	}
	rows := hosttest.WriteFile(t, "rows.jsonl", []byte(hosttest.Labelled))
	runs := RunInEmptyFolder(t, [][]string{
		{"check", "paypal.com", "--data-dir=.assay"},
		{"check", "paypal.com", "--database-url=postgres://127.0.0.1:1/none"},
		{"eval", rows, "--data-dir=missing"},
		{"lineup", "fit", rows, "--data-dir=missing"},
		{"lineup", "fit", rows, "--feedback"}, // which is in a database
		{"check", "paypal.com", "--config=" + hosttest.WriteFile(t, "assay.conf", []byte("ASSAY_DATA_DIR=.assay\n"))},
		{"check", "paypal.com", "--secret-file=missing"},
	})
	check(runs)
	hosttest.Has(t, runs[len(runs)-1].Output, "with the secret missing (ASSAY_SECRET_FILE)")
	check(RunInEmptyFolder(t, [][]string{{"check", "paypal.com"}}, "ASSAY_DATA_DIR=.assay"))
}

// TestIncompleteInstallations runs commands where a host has not been started completely: they leave everything to it.
func TestIncompleteInstallations(t *testing.T) {
	t.Parallel()
	dir, database := t.TempDir(), postgrestest.Empty(t)
	expect.Value((&installation.Config{DataDir: dir}).CreateInstallation())(t)
	hosttest.WantRefusal(t, "a command without the database's URL", dir, "", nil, []string{"keys", "create"},
		"has no private Postgres: set ASSAY_DATABASE_URL")
	hosttest.WantRefusal(t, "a command on an empty database", dir, database, nil, []string{"keys", "create"},
		"no host has been started on this database (ASSAY_DATABASE_URL)")
	hosttest.OpenStore(t, dir, database)
	for _, args := range [][]string{{"lineup", "show"}, {"check", "paypal.com"}} {
		hosttest.WantRefusal(t, "a command without a lineup", dir, database, nil, args, "no signed lineup yet")
	}
	for _, e := range expect.Value(os.ReadDir(dir))(t) {
		expect.Equal(t, "what commands made", e.Name(), "secret")
	}
}

// A secret that is lost is told apart from that of another installation, and none is left in its place.
func TestLostSecret(t *testing.T) {
	t.Parallel()
	database := postgrestest.Database(t)
	hosttest.OpenStore(t, hosttest.DataDir(t), database)
	open := func(dir string) error {
		_, err := installation.Open(t.Context(), &installation.Config{DataDir: dir, DatabaseURL: database},
			&terminal.Terminal{Out: t.Output(),
				Err: t.Output()}, installation.QuietLog(&terminal.Terminal{Err: t.Output()}), store.CreateSchema)
		return err
	}
	lost, other := t.TempDir(), t.TempDir()
	for range 2 { // the second start finds no more than the first
		expect.ErrorText(t, "a lost secret", open(lost), "whose secret was not at "+filepath.Join(lost, "secret"))
	}
	expect.Error(t, "the secret", expect.ErrorOf(os.Stat(filepath.Join(lost, "secret"))), fs.ErrNotExist)
	expect.Value((&installation.Config{DataDir: other}).CreateInstallation())(t)
	expect.Error(t, "another secret", open(other), store.ErrOtherSecret)
	expect.Value((&installation.Config{DataDir: other}).LoadInstallation())(t) // it is kept
}

// TestBuiltInLineup scores and measures without an installation.
func TestBuiltInLineup(t *testing.T) {
	t.Parallel()
	cached, out := &installation.Config{DataDir: hosttest.DataDir(t)}, &terminal.Terminal{Out: t.Output(),
		Err: t.Output()}
	keys := expect.Value(cached.LoadInstallation())(t)
	modules := expect.Value(installation.BuiltInLayers(t.Context(), cached, out))(t)
	cfg := &installation.Config{DataDir: filepath.Join(t.TempDir(), "none"), DNS: []string{installation.Off}}
	o := installation.NewBuiltInOpener(&installation.Command{Config: cfg, Terminal: out}, modules,
		sandbox.Config{CacheDir: cached.Path("compiled"), CacheKey: keys.Cache, Logger: installation.QuietLog(out)})
	checker, closeChecker, err := o.Checker(t.Context(), "", entity.Domain)
	expect.NoError(t, err)
	checker.Deadline = measurement.MeasuredDeadline
	decision := expect.Value(checker.Explain(t.Context(), check.Field{Type: entity.Domain,
		Value: "paypa1-secure-login.xyz"}, ""))(t)
	expect.NoError(t, closeChecker())
	expect.That(t, decision.Verdict == check.Block && decision.Revision == 0 && len(decision.Layers) != 0,
		"a check: %+v", decision)
	m := &measurement.Measurement{Document: expect.Value(installation.ReadDocument(""))(t)}
	expect.NoError(t, m.Run(t.Context(), o, true, func(m *measurement.Measurement) error {
		scored, err := m.Score(t.Context(), eval.Row{Type: entity.Domain, Value: "paypa1-secure-login.xyz"})
		expect.That(t, err != nil || scored.Score == decision.Score, "measured: %d, a check: %d", scored.Score,
			decision.Score)
		return err
	}))
	expect.Error(t, "the data directory", expect.ErrorOf(os.Stat(cfg.DataDir)), fs.ErrNotExist)
}
