package cli

import (
	"bytes"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"assay/registry/expect"
)

// TestHelpFitsOneScreen prints every page of help, which must fit 45 lines of 100 columns.
func TestHelpFitsOneScreen(t *testing.T) {
	t.Parallel()
	parser := expect.Value(newParser(&cli{}))(t)
	pages := [][]string{{"--help"}, {"help"}, {"help", "settings"}}
	for _, topic := range settingTopics(parser.Model.Node) {
		pages = append(pages, []string{"help", "settings", topic.title})
	}
	err := kong.Visit(parser.Model.Node, func(v kong.Visitable, next kong.Next) error {
		if node, ok := v.(*kong.Node); ok && node.Parent != nil {
			path := strings.Fields(node.Path())
			pages = append(pages, append(path, "--help"), append([]string{"help"}, path...))
		}
		return next(nil)
	})
	expect.Must(t, err == nil && len(pages) >= 50, "%d pages, %v", len(pages), err)
	for _, args := range pages {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			var out, errs bytes.Buffer
			code := Run(t.Context(), args, &out, &errs)
			expect.Must(t, code == 0 && errs.Len() == 0, "exit code %d\n%s", code, errs.String())
			expect.That(t, !strings.Contains(out.String(), "${"), "a variable is not replaced:\n%s", out.String())
			expect.That(t, strings.Count(out.String(), "\n") <= 45, "more than 45 lines:\n%s", out.String())
			for line := range strings.Lines(out.String()) {
				expect.That(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) <= helpColumns, "wide: %s", line)
			}
		})
	}
}

// TestHelpPages checks what the pages say: of the first, that a person who has never seen the program finds the way.
func TestHelpPages(t *testing.T) {
	t.Parallel()
	type testCase struct {
		args       string
		has, lacks []string
	}
	expect.Each(t, map[string]testCase{
		"first": {"--help", []string{"\nCustomers\n  keys       Create, list and revoke API keys\n",
			"assay keys create", "assay lineup show", "assay audit verify", "assay help settings",
			"assay COMMAND --help"}, []string{"ASSAY_", "--listen", "  compile "}},
		"overview": {"help", []string{"\nCustomers\n", "assay COMMAND --help"}, []string{"--ledger-batch"}},
		"command with commands": {"keys --help", []string{"\n  create  ", "assay help settings"},
			[]string{"ASSAY_", "--listen"}},
		"settings": {"help settings", []string{"ASSAY_LISTEN", "127.0.0.1:8080", "ASSAY_DNSBL", "(--public-url)"}, nil},
		"command":  {"keys create --help", []string{"--plan", "assay help settings"}, []string{"ASSAY_", "--listen"}},
		"another way": {"help keys create", []string{"--plan", "assay help settings"},
			[]string{"ASSAY_", "--listen"}},
		"after the command": {"keys create --data-dir /x -h", []string{"--plan"}, nil},
		"settings of a topic": {"help settings lookups", []string{"ASSAY_DNS, --dns=HOST:PORT"},
			[]string{"ASSAY_LISTEN"}},
		"help with a broken setting": {"help settings --listen=x", []string{"ASSAY_LISTEN"}, nil},
	}, func(t *testing.T, test testCase) {
		var out, errs bytes.Buffer
		code := Run(t.Context(), strings.Fields(test.args), &out, &errs)
		expect.Must(t, code == 0 && errs.Len() == 0, "exit code %d\n%s", code, errs.String())
		for _, text := range test.has {
			expect.That(t, strings.Contains(out.String(), text), "lacks %q:\n%s", text, out.String())
		}
		for _, text := range test.lacks {
			expect.That(t, !strings.Contains(out.String(), text), "contains %q:\n%s", text, out.String())
		}
	})
}

// TestMisuse checks that a command line that cannot be parsed gives two lines: what is wrong, and where to read on.
func TestMisuse(t *testing.T) {
	t.Parallel()
	var ofKeys []string
	for _, name := range commandNames(t) {
		if command, ok := strings.CutPrefix(name, "keys "); ok {
			ofKeys = append(ofKeys, strconv.Quote(command))
		}
	}
	type testCase struct{ args, want string }
	expect.Each(t, map[string]testCase{
		"command": {"kyes create", "assay: unknown command kyes, did you mean \"keys\"?\nSee 'assay --help'.\n"},
		"command of a command": {"keys creat",
			"assay: unknown command creat, did you mean \"create\"?\nSee 'assay keys --help'.\n"},
		"no command of a command": {"keys",
			"assay: expected one of " + strings.Join(ofKeys, ", ") + "\nSee 'assay keys --help'.\n"},
		"flag": {"keys create --nam=x",
			"assay: unknown flag --nam, did you mean \"--name\"?\nSee 'assay keys create --help'.\n"},
		"setting": {"--lisen=x", "assay: unknown flag --lisen, did you mean \"--listen\"?\nSee 'assay --help'.\n"},
		"value of a setting": {"--listen=x",
			"assay: ASSAY_LISTEN: \"x\" is not of the form host:port\nSee 'assay config' and 'assay help settings'.\n"},
		"help":  {"help kyes", "assay: unexpected argument kyes, did you mean \"keys\"?\nSee 'assay --help'.\n"},
		"topic": {"help settings x", "assay: there is no topic \"x\" of settings, but there are serving, "},
	}, func(t *testing.T, test testCase) {
		var out, errs bytes.Buffer
		code := Run(t.Context(), strings.Fields(test.args), &out, &errs)
		expect.That(t, code == 2 && out.Len() == 0, "exit code %d, printed %q", code, out.String())
		expect.That(t, strings.HasPrefix(errs.String(), test.want) && strings.Count(errs.String(), "\n") == 2,
			"printed\n%s, want\n%s", errs.String(), test.want)
	})
}

// TestInvalidCommands checks that invalid command lines are rejected before a database is opened.
func TestInvalidCommands(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"feeds import x.txt --kind bad --name a,b":                         "--name",
		"eval x.jsonl --worst=-1":                                          "--worst must not be negative",
		"feeds import x.txt --kind bad":                                    "--name",
		"keys create --account a --scope=":                                 "--scope: is empty",
		"graph forget example.com --account=":                              "--account: is empty",
		"feeds import x.txt --name a --kind ugly":                          "--kind",
		"feeds import x.txt --name a --kind bad --category evil":           "--category",
		"feeds import x.txt --name a --kind good --category scam":          "--category",
		"feeds import x.txt --name a --kind bad --format xml":              "--format",
		"feeds import x.txt --name a --kind bad --expires 30":              "--expires",
		"feeds import x.txt --name a --kind bad --expires 0d":              "--expires",
		"feeds import x.txt --name a --kind bad --country Germany":         "--country",
		"lineup canary l.json --share 51%":                                 "is not a whole percentage",
		"lineup canary l.json --share 0.5%":                                "is not a whole percentage",
		"lineup canary l.json --share 0%":                                  "is not a whole percentage",
		"lineup canary l.json --share 5":                                   "is not a whole percentage",
		"webhooks set a --url ftp://receiver.example":                      "url: must begin with https://",
		"webhooks set --url https://receiver.example":                      "<id>",
		"webhooks list --events":                                           "--events needs --account",
		"webhooks list --account a --state failed":                         "--state needs --events",
		"webhooks list --account a --events --state lost":                  "--state",
		"webhooks list --account a --events --limit 0":                     "--limit must be from 1 to 1000",
		"webhooks resend":                                                  "expected references, or --account",
		"webhooks resend chk_1 --account a --since 1h":                     "expected references, or --account",
		"webhooks resend --account a":                                      "expected references, or --account",
		"webhooks resend --account a --since yesterday":                    `since: "yesterday" is neither`,
		"webhooks resend --account a --since=-1h":                          "is neither",
		"webhooks list --webhook-allow 10.0.0.0/33":                        `"10.0.0.0/33" is neither`,
		"webhooks set a --url https://receiver.example/ --webhook-allow x": `ASSAY_WEBHOOK_ALLOW: "x" is neither`,
		"lineup fit x.jsonl --l2 Inf":                                      "--l2 must be from 0 to 1000000",
		"bench --rate 0":                                                   "--rate must be from 1 to 1000000",
		"bench --seconds 1000001":                                          "--seconds must be from 1 to 1000000",
		"bench --connections=-1":                                           "--connections must be from 1 to 1000000",
		"eval":                                                             "expected files",
		"lineup fit":                                                       "expected files",
	} {
		var out bytes.Buffer
		code := Run(t.Context(), strings.Fields(line), &out, &out)
		expect.That(t, code == 2 && strings.Contains(out.String(), want), "%s: exit code %d, %s\nwant %q", line, code,
			&out, want)
	}
}
