package cli

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"assay/host/check"
	"assay/host/hosttest"
	"assay/host/installation"
	"assay/registry/expect"
)

// settingsCommand runs a command with variables in its environment, in an empty folder, where it must leave nothing.
func settingsCommand(t *testing.T, environ []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := hosttest.Command(t.Context(), "", "", args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append([]string{}, environ...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	expect.Must(t, cmd.ProcessState != nil, "%v", err)
	left, err := os.ReadDir(cmd.Dir)
	expect.That(t, err == nil && len(left) == 0, "the command left %v, %v", left, err)
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// configJSON runs assay config --json and returns the settings by name.
func configJSON(t *testing.T, environ []string, wantCode int, args ...string) (map[string]settingInForce, string) {
	t.Helper()
	out, errs, code := settingsCommand(t, environ, append([]string{"config", "--json"}, args...)...)
	var list []settingInForce
	err := json.Unmarshal([]byte(out), &list)
	expect.Must(t, err == nil && code == wantCode, "exit code %d, %v\n%s%s", code, err, out, errs)
	all := map[string]settingInForce{}
	for _, s := range list {
		all[s.Setting] = s
	}
	return all, errs
}

// A flag precedes the environment, which precedes the file, which precedes the default, for each kind of value.
func TestSettingsPrecedence(t *testing.T) {
	t.Parallel()
	file := hosttest.WriteFile(t, "assay.env", []byte("# settings\nASSAY_LISTEN=127.0.0.1:3\n"+
		"ASSAY_TRUSTED_PROXIES=10.0.0.3,10.0.1.3\nASSAY_CHAINS=3\nASSAY_FLIP_LIMIT=3%\n"))
	inFile := []string{"ASSAY_CONFIG=" + file}
	inEnvironment := append(slices.Clone(inFile), "ASSAY_LISTEN=127.0.0.1:2", "ASSAY_TRUSTED_PROXIES=10.0.0.2",
		"ASSAY_CHAINS=2", "ASSAY_FLIP_LIMIT=2%")
	flags := []string{"--listen=127.0.0.1:1", "--trusted-proxies=10.0.0.1", "--chains=1", "--flip-limit=1%"}
	type testCase struct {
		environ, args []string
		want, from    [4]string // values and their sources
	}
	expect.Each(t, map[string]testCase{
		"flag": {inEnvironment, flags, [4]string{"127.0.0.1:1", "10.0.0.1", "1", "1%"},
			[4]string{"flag", "flag", "flag", "flag"}},
		"environment": {inEnvironment, nil, [4]string{"127.0.0.1:2", "10.0.0.2", "2", "2%"},
			[4]string{"environment", "environment", "environment", "environment"}},
		"file": {inFile, nil, [4]string{"127.0.0.1:3", "10.0.0.3,10.0.1.3", "3", "3%"},
			[4]string{file + ":2", file + ":3", file + ":4", file + ":5"}},
		"file by flag": {[]string{"ASSAY_CONFIG=/nonexistent"}, []string{"--config", file},
			[4]string{"127.0.0.1:3", "10.0.0.3,10.0.1.3", "3", "3%"},
			[4]string{file + ":2", file + ":3", file + ":4", file + ":5"}},
		"default": {nil, nil, [4]string{"127.0.0.1:8080", "", "1", "1%"},
			[4]string{"default", "default", "default", "default"}},
		"no file": {[]string{"ASSAY_CONFIG="}, nil, [4]string{"127.0.0.1:8080", "", "1", "1%"},
			[4]string{"default", "default", "default", "default"}},
	}, func(t *testing.T, test testCase) {
		all, _ := configJSON(t, test.environ, 0, test.args...)
		for i, name := range []string{"ASSAY_LISTEN", "ASSAY_TRUSTED_PROXIES", "ASSAY_CHAINS", "ASSAY_FLIP_LIMIT"} {
			got := all[name]
			expect.That(t, got.Value == test.want[i] && got.Source == test.from[i],
				"%s is %q from %s, want %q from %s", name, got.Value, got.Source, test.want[i], test.from[i])
		}
	})
}

// TestConfigurationFileExamples reads the files of settings that examples and documents show.
func TestConfigurationFileExamples(t *testing.T) {
	t.Parallel()
	_, shown, _ := strings.Cut(hosttest.ReadText(t, "../../docs/settings.md"), "```\n# /etc/assay.env\n")
	shown, _, _ = strings.Cut(shown, "```")
	for name, text := range map[string]string{"docs": shown,
		"deploy": hosttest.ReadText(t, "../../examples/deploy/assay.env")} {
		all, _ := configJSON(t, nil, 0, "--config", hosttest.WriteFile(t, "assay.env", []byte(text)))
		got := all["ASSAY_LISTEN"]
		expect.That(t, got.Value == "0.0.0.0:8080", "%s: ASSAY_LISTEN is %+v", name, got)
	}
}

// TestConfigurationFileErrors checks that commands refuse a file with errors, and say all of them with their lines.
func TestConfigurationFileErrors(t *testing.T) {
	t.Parallel()
	type testCase struct{ text, want string }
	expect.Each(t, map[string]testCase{
		"name":                       {"ASSAY_LISTN=:80\n", ":1: ASSAY_LISTN is not a setting: is it ASSAY_LISTEN?\n"},
		"another program's variable": {"GOGC=100\n", ":1: GOGC is not a setting: 'assay help settings' lists them\n"},
		"twice":                      {"ASSAY_DNS=off\nASSAY_DNS=off\n", ":2: ASSAY_DNS was set in line 1 already\n"},
		"syntax":                     {"ASSAY_DNS\n", ":1: it is neither a comment nor of the form NAME=value\n"},
		"quotes":                     {"ASSAY_DNS=\"off\"\n", ":1: ASSAY_DNS: quotes and backslashes are refused, "},
		"witness": {"ASSAY_WITNESS=https://witness.example w+1\n",
			":1: ASSAY_WITNESS: \"w+1\" is not the public key of a witness"},
		"number": {"\nASSAY_CHAINS=many\n", ":2: ASSAY_CHAINS: expected a valid 64 bit int but got \"many\"\n"},
		"witness without a URL": {"ASSAY_WITNESS=" + hosttest.WitnessKey + "\n",
			":1: ASSAY_WITNESS: a witness does not begin with a URL"},
		"a witness twice": {"ASSAY_WITNESS=http://a.example " + hosttest.WitnessKey + ",http://b.example " +
			hosttest.WitnessKey + "\n", ":1: ASSAY_WITNESS: two witnesses have the name w.example"},
		"contact": {"ASSAY_SECURITY_CONTACT=me@x.example\n",
			":1: ASSAY_SECURITY_CONTACT: \"me@x.example\" is neither "},
		"value":  {"#\nASSAY_DNS=nowhere\n", ":2: ASSAY_DNS: \"nowhere\" is neither off nor of the form host:port\n"},
		"itself": {"ASSAY_CONFIG=other\n", ":1: ASSAY_CONFIG cannot be set in a file that it names\n"},
	}, func(t *testing.T, test testCase) {
		file := hosttest.WriteFile(t, "assay.env", []byte(test.text))
		_, errs, code := settingsCommand(t, nil, "keys", "list", "--config", file)
		expect.That(t, strings.HasPrefix(errs, "assay: "+file+test.want) && code == 2 && strings.HasSuffix(errs,
			"\nSee 'assay config' and 'assay help settings'.\n"), "exit code %d, printed\n%s", code, errs)
	})
}

// TestSettingsOfCommands checks that a file of settings that does not exist is an error, also for assay config, that
// nothing keeps anybody from reading what settings mean, and that assay serve and assay config warn of typos.
func TestSettingsOfCommands(t *testing.T) {
	t.Parallel()
	const missing = "reading the configuration file: open /nonexistent"
	const typo = "warning: the environment sets ASSAY_LISTN"
	wrong := []string{"ASSAY_CONFIG=/nonexistent", "ASSAY_CHAINS=x", "ASSAY_LISTEN=x"}
	notStarting := []string{"ASSAY_LISTN=x", "ASSAY_DATA_DIR=/dev/null/x"} // which cannot be created
	for _, test := range []struct {
		args    string
		environ []string
		warns   string // "": nothing
		fails   bool
	}{
		{"keys list", wrong[:1], missing, true},
		{"config", wrong[:1], missing, true},
		{"help settings", wrong, "", false},
		{"--help", wrong, "", false},
		{"--version", wrong, "", false},
		{"config", notStarting, typo, false},
		{"serve", notStarting, typo, true},
	} {
		out, errs, code := settingsCommand(t, test.environ, strings.Fields(test.args)...)
		expect.That(t, strings.Contains(errs, test.warns) && (errs == "") == (test.warns == "") &&
			(code != 0) == test.fails && (out != "" || test.fails), "%s: exit code %d, printed %q and\n%s", test.args,
			code, out, errs)
	}
}

// TestConfigShowsWrongSettings checks that assay config shows all settings although some are wrong, and names these.
func TestConfigShowsWrongSettings(t *testing.T) {
	t.Parallel()
	file := hosttest.WriteFile(t, "assay.env",
		[]byte("ASSAY_FLIP_LIMIT=all\nASSAY_DNS=nowhere\nASSAY_X=1\nASSAY_CHAINS=2\n"))
	all, errs := configJSON(t, []string{"ASSAY_CONFIG=" + file, "ASSAY_DATABASE_CONNECTIONS=x",
		"ASSAY_STRIPE_KEY=sk_live_1", "ASSAY_DRAIN=90s", "ASSAY_DATABASE_URL=postgres://h/?sslmode=x",
		"ASSAY_LINKS=support=mailto:a@a.a,dpa=https://a.a/"}, 1, "--listen=x")
	for name, want := range map[string]settingInForce{
		"ASSAY_FLIP_LIMIT":           {Value: "all", Source: file + ":1", Error: `"all" is not a percentage`},
		"ASSAY_DNS":                  {Value: "nowhere", Source: file + ":2", Error: `"nowhere" is neither off`},
		"ASSAY_CHAINS":               {Value: "2", Source: file + ":4"},
		"ASSAY_DATABASE_CONNECTIONS": {Value: "x", Source: "environment", Error: "expected a valid 64 bit int"},
		"ASSAY_LISTEN":               {Value: "x", Source: "flag", Error: `"x" is not of the form`},
		"ASSAY_STRIPE_KEY":           {Value: "set", Source: "environment"},
		"ASSAY_URL":                  {Source: "default"},
		"ASSAY_DATABASE_URL":         {Value: "postgres://h/?sslmode=x", Source: "environment", Error: "is invalid"},
		"ASSAY_LINKS":                {Value: "dpa=https://a.a/,support=mailto:a@a.a", Source: "environment"},
		"ASSAY_DRAIN":                {Value: "1m30s", Source: "environment"},
	} {
		got := all[name]
		expect.That(t, got.Value == want.Value && got.Source == want.Source && strings.Contains(got.Error,
			want.Error) && (got.Error == "") == (want.Error == ""), "%s: %+v, want %+v", name, got, want)
		expect.That(t, got.Error == "" || strings.Contains(errs, name+": "), "%s is not named in\n%s", name, errs)
	}
	hosttest.Has(t, errs, file+":3: ASSAY_X is not a setting")
}

// TestConfigHidesSecrets checks that assay config prints no secret, wherever it comes from.
func TestConfigHidesSecrets(t *testing.T) {
	t.Parallel()
	const secret = "hunter2hunter2hunter2hunter2"
	environ := []string{"ASSAY_DATABASE_URL=postgres://app:" + secret + "@db.example:5432/assay?sslmode=require",
		"ASSAY_DATABASE_DIRECT_URL=postgres://app@db.example/assay?sslpassword=" + secret,
		"ASSAY_SMTP_URL=smtps://app:" + secret + "@mail.example:465?from=assay%40example.com",
		"ASSAY_URL=https://assay.example",
		"ASSAY_DNSBL=" + secret + ".zen.dq.spamhaus.net,domain:" + secret + ".dbl.dq.spamhaus.net"}
	for _, f := range settingsOf(expect.Value(newParser(&cli{}))(t).Model.Node) {
		if f.Tag.Has("secret") && f.Tag.Get("secret") == "" {
			environ = append(environ, f.Envs[0]+"="+secret)
		}
	}
	out, errs, code := settingsCommand(t, environ, "config")
	expect.That(t, !strings.Contains(out+errs, secret) && code == 0, "exit code %d, printed\n%s%s", code, out, errs)
	hosttest.Has(t, out, "postgres://app:***@db.example:5432/assay?sslmode=require ",
		"postgres://app@db.example/assay?sslpassword=*** ",
		"smtps://app:***@mail.example:465?from=assay%40example.com ",
		" ***.zen.dq.spamhaus.net,domain:***.dbl.dq.spamhaus.net ")
	expect.That(t, regexp.MustCompile(`ASSAY_STRIPE_KEY +set +environment`).FindString(out) != "", "printed\n%s", out)
	out, errs, code = settingsCommand(t, []string{"ASSAY_DATABASE_URL=host=db user=x password='a://" + secret,
		"ASSAY_DATABASE_DIRECT_URL=user:" + secret + "@h/db", "ASSAY_URL=https://user:" + secret + "@host/x",
		"ASSAY_SMTP_URL=mail.example:587?user=x&pass=" + secret, "ASSAY_RDAP_URL=ftp://user:" + secret + "@host/",
		"ASSAY_DNSBL=" + secret + ".zen.dq.spamhaus.net extra", "ASSAY_WITNESS=https://user:" + secret + "@host/"},
		"config")
	expect.That(t, !strings.Contains(out+errs, secret) && code == 1, "exit code %d, printed\n%s%s", code, out, errs)
}

// TestSecretsAreTagged checks that settings whose names say that they are secrets have the tag.
func TestSecretsAreTagged(t *testing.T) {
	t.Parallel()
	parser := expect.Value(newParser(&cli{}))(t)
	name := regexp.MustCompile(`KEY|TOKEN|SECRET|PASSWORD`)
	for _, f := range settingsOf(parser.Model.Node) {
		expect.That(t, !name.MatchString(f.Envs[0]) || f.PlaceHolder == "FILE" || f.Tag.Has("secret"),
			"%s names neither a FILE nor has the tag secret", f.Envs[0])
	}
}

// TestConfigShowsDerivedDefaults checks the defaults that depend on other settings.
func TestConfigShowsDerivedDefaults(t *testing.T) {
	t.Parallel()
	all, _ := configJSON(t, nil, 0, "--data-dir=/srv/a", "--listen=0.0.0.0:9000", "--database-url=postgres://h/d")
	for name, want := range map[string]string{
		"ASSAY_SECRET_FILE": "/srv/a/secret", "ASSAY_TRUST_FILE": "/srv/a/trust",
		"ASSAY_OPERATOR_KEY": "/srv/a/operator.key", "ASSAY_DATABASE_DIRECT_URL": "postgres://h/d",
		"ASSAY_ADMIN_LISTEN": "127.0.0.1:9001",
	} {
		got := all[name]
		expect.That(t, got.Value == want && got.Source == fromDefault, "%s is %+v, want %s", name, got, want)
	}
	out, _, _ := settingsCommand(t, nil, "config")
	for _, row := range []string{`ASSAY_DATABASE_URL +\(a private one\) +default\n`,
		`ASSAY_RDAP_URL +\(the registries'\) +default\n`, `ASSAY_MMDB_ASN +- +default\n`} {
		expect.That(t, regexp.MustCompile(row).MatchString(out), "lacks %s:\n%s", row, out)
	}
}

// TestSettingsWarnings checks the warnings about variables that are not settings, and about files with secrets.
func TestSettingsWarnings(t *testing.T) {
	t.Parallel()
	known := settingsOf(expect.Value(newParser(&cli{}))(t).Model.Node)
	type testCase struct {
		environ []string
		text    string // of the file
		mode    os.FileMode
		want    []string // a part of each warning
	}
	expect.Each(t, map[string]testCase{
		"settings": {[]string{"ASSAY_LISTEN=x", "HOME=/", "ASSAY=1"}, "", 0o644, nil},
		"typo": {[]string{"ASSAY_DATABSE_URL=secret"}, "", 0o644,
			[]string{"the environment sets ASSAY_DATABSE_URL, which is not a setting: is it ASSAY_DATABASE_URL?"}},
		"unknown": {[]string{"ASSAY_COLOUR=red"}, "", 0o644,
			[]string{"the environment sets ASSAY_COLOUR, which is not a setting: 'assay help settings' lists them"}},
		"Kubernetes": {[]string{"ASSAY_PORT=tcp://10.0.0.1:80", "ASSAY_SERVICE_HOST=10.0.0.1", "ASSAY_PORT_80_TCP=x"},
			"", 0o644, nil},
		"a port":          {[]string{"ASSAY_PORT=80"}, "", 0o644, []string{"ASSAY_PORT"}},
		"public secret":   {nil, "ASSAY_STRIPE_KEY=sk\n", 0o644, []string{"contains secrets, and every user"}},
		"public password": {nil, "ASSAY_DATABASE_URL=postgres://a:b@c/d\n", 0o604, []string{"contains secrets"}},
		"private secret":  {nil, "ASSAY_STRIPE_KEY=sk\n", 0o640, nil},
		"nothing secret":  {nil, "ASSAY_DATABASE_URL=postgres://a@c/d\n", 0o644, nil},
	}, func(t *testing.T, test testCase) {
		file := filepath.Join(t.TempDir(), "assay.env")
		expect.NoError(t, os.WriteFile(file, []byte(test.text), 0o600))
		expect.NoError(t, os.Chmod(file, test.mode))
		var s settings
		expect.NoError(t, s.read(file, known))
		got := s.warnings(known, test.environ)
		expect.That(t, slices.EqualFunc(got, test.want, strings.Contains), "warnings %q, want %q", got, test.want)
	})
}

func TestHidePassword(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ value, want string }{
		{"", ""},
		{"127.0.0.1:8080", "127.0.0.1:8080"},
		{"postgres://db/assay", "postgres://db/assay"},
		{"postgres://app@db/assay", "postgres://app@db/assay"},
		{"postgres://app:secret@db:5432/assay?sslmode=require", "postgres://app:***@db:5432/assay?sslmode=require"},
		{"postgres://app:s:ec@r/e?t#@db/assay", "postgres://app:***@db/assay"},
		{"postgres://app:secret@a:1,b:2/assay", "postgres://app:***@a:1,b:2/assay"},
		{"postgres://db/assay?user=app&password=secret&a=b", "postgres://db/assay?user=app&password=***&a=b"},
		{"postgres://db/assay?sslPassword=secret", "postgres://db/assay?sslPassword=***"},
		{"postgres://app:secret@db/assay?options=a@b", "postgres://app:***@b"}, // where a password ends is not known
		{"https://key:secret@rdap.example/", "https://key:***@rdap.example/"},
	} {
		expect.Equal(t, test.value, hidePassword(test.value), test.want)
	}
}

// TestTestModeMustBeAskedFor checks that a host on the operator's own database does not give keys away by default.
func TestTestModeMustBeAskedFor(t *testing.T) {
	t.Parallel()
	const database = "postgres://h/d"
	for name, test := range map[string]struct {
		cfg     installation.Config
		testing bool
		err     string
	}{
		"private database":           {installation.Config{}, true, ""},
		"own database":               {installation.Config{DatabaseURL: database}, false, ""},
		"own database, asked for":    {installation.Config{DatabaseURL: database, TestCheckout: new(true)}, true, ""},
		"private database, declined": {installation.Config{TestCheckout: new(false)}, false, ""},
		"Stripe": {installation.Config{StripeKey: "sk_live_1", StripeWebhookSecret: "whsec_1"}, false,
			""},
		"documents": {installation.Config{Links: map[string]string{"terms": "https://a.example/t"}}, true, ""},
		"a support address": {installation.Config{Links: map[string]string{"support": "mailto:help@a.example"}}, true,
			""},
		"an address of another document": {installation.Config{Links: map[string]string{"dpa": "mailto:a@a.example"}},
			true, "ASSAY_LINKS: dpa=mailto:a@a.example is not one of"},
		"an unknown document": {installation.Config{Links: map[string]string{"term": "https://a.example/t"}}, true,
			"ASSAY_LINKS: term="},
		"a document of plain HTTP": {installation.Config{Links: map[string]string{"dpa": "http://a.example/t"}}, true,
			"ASSAY_LINKS: dpa="},
		"tax without Stripe": {installation.Config{StripeTax: true}, true, "ASSAY_STRIPE_KEY: it is empty"},
		"Stripe and test checkout": {installation.Config{StripeKey: "sk_live_1", StripeWebhookSecret: "whsec_1",
			TestCheckout: new(true)}, false, "ASSAY_TEST_CHECKOUT: it cannot be set"},
	} {
		err := test.cfg.ValidateBilling()
		expect.That(t, (err != nil) == (test.err != "") && (err == nil || strings.HasPrefix(err.Error(), test.err)),
			"%s: %v, want %q", name, err, test.err)
		expect.Equal(t, name, test.cfg.TestMode(), test.testing)
	}
}

func TestRateSettings(t *testing.T) {
	t.Parallel()
	changed := installation.DefaultRates()
	changed["pro"], changed["public"] = 3000, 0
	for _, test := range []struct {
		setting string
		want    map[string]int // nil: an error
	}{
		{"", installation.DefaultRates()}, {"pro=3000,public=off", changed}, {"off", map[string]int{}},
		{"gold=1", nil}, {"pro", nil}, {"pro=0", nil}, {"pro=-1", nil}, {"pro=1.5", nil}, {"pro=1e3", nil},
		{"pro=1000000001", nil}, {"off,pro=1", nil}, {"pro=1,pro=2", nil},
	} {
		var c installation.Config
		if test.setting != "" {
			c.Rates = strings.Split(test.setting, ",")
		}
		got, err := c.RateLimits()
		expect.That(t, (err != nil) == (test.want == nil) && (err != nil || maps.Equal(got, test.want)),
			"%q: %v, %v, want %v", test.setting, got, err, test.want)
		expect.That(t, err == nil || strings.HasPrefix(err.Error(), "ASSAY_RATES: "),
			"%q: the error %v does not name the setting", test.setting, err)
	}
	for _, p := range append(check.Plans(), check.PublicPlan()) {
		expect.That(t, installation.DefaultRates()[p.Name] != 0, "the plan %s has no rate", p.Name)
		expect.That(t, strings.Contains(helpTexts["rates"], p.Name+"="), "the help does not name the rate of %s",
			p.Name)
	}
}

// TestLibpqVariables reads addresses as Postgres's own programs would.
func TestLibpqVariables(t *testing.T) {
	t.Parallel()
	type testCase struct{ address, want string }
	expect.Each(t, map[string]testCase{
		"all parts": {"postgres://assay:p%40ss@db.example:6432/scores?sslmode=verify-full&sslrootcert=/ca.pem",
			"PGDATABASE=scores PGHOST=db.example PGPASSWORD=p@ss PGPORT=6432 PGSSLMODE=verify-full " +
				"PGSSLROOTCERT=/ca.pem PGUSER=assay"},
		"little": {"postgresql://db.example/", "PGHOST=db.example PGPORT=5432"},
		"a socket": {"postgres:///scores?host=/run/postgresql&port=5433",
			"PGDATABASE=scores PGHOST=/run/postgresql PGPORT=5433"},
		"IPv6":            {"postgres://[::1]:5433/x", "PGDATABASE=x PGHOST=::1 PGPORT=5433"},
		"several hosts":   {"postgres://a,b/x", "PGDATABASE=x PGHOST=a,b PGPORT=5432,5432"},
		"driver settings": {"postgres://a/x?default_query_exec_mode=exec", "PGDATABASE=x PGHOST=a PGPORT=5432"},
		"no URL":          {"host=db.example password=secret", "ASSAY_DATABASE_URL: "},
		"a broken URL":    {"postgres://assay:secret%zz@db/x", "ASSAY_DATABASE_URL: "},
	}, func(t *testing.T, c testCase) {
		got, err := libpqVariables(c.address)
		slices.Sort(got)
		if err != nil {
			expect.That(t, strings.HasPrefix(err.Error(), c.want) && !strings.Contains(err.Error(), "secret"), "%v",
				err)
		} else if strings.Join(got, " ") != c.want {
			t.Errorf("%v, want %s", got, c.want)
		}
	})
}

// TestReadme checks that the README shows the two commands, and that docs/settings.md lists every setting.
func TestReadme(t *testing.T) {
	t.Parallel()
	hosttest.Has(t, hosttest.ReadText(t, "../../README.md"), "\ngo run ./host", "\ngo test ./...", "POST /api/check")
	settings := hosttest.ReadText(t, "../../docs/settings.md")
	for _, f := range reflect.VisibleFields(reflect.TypeFor[installation.Config]()) {
		env, help := f.Tag.Get("env"), helpTexts[strings.Trim(f.Tag.Get("help"), "${}")]
		expect.That(t, !f.IsExported() || strings.HasSuffix(help, "for tests.") ||
			strings.Contains(settings, "`"+env+"`"), "docs/settings.md does not list %s", env)
	}
}
