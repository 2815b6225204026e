package customer

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"assay/docs"
	"assay/host/access/apikey"
	"assay/host/customer/privacy"
	"assay/host/hosttest"
	"assay/registry/expect"
)

// snippet is a program in the documentation, and the output that the page states for it.
type snippet struct {
	page, language, code string
	want                 string // empty: none is stated
	key                  string // in ASSAY_KEY
}

// readSnippets returns the programs in a page of the documentation. A block json states the response to the curl
// command before it, and a block text the output of the programs.
func readSnippets(page, text string) (all []snippet) {
	group, stated, last := 0, false, -1 // the beginning of the latest group, whether its output is known, its language
	for _, block := range hosttest.Fenced.FindAllStringSubmatch(text, -1) {
		language, code := block[1], block[2]
		at := slices.Index(hosttest.ProgramOrder, language)
		if at >= 0 {
			if stated || at <= last {
				group, stated = len(all), false
			}
			last = at
			all = append(all, snippet{page: page, language: language, code: code})
			continue
		}
		stated = true
		for i := group; i < len(all); i++ {
			if (language == "json") == (all[i].language == "sh") {
				all[i].want = strings.TrimSpace(code)
			}
		}
	}
	return all
}

// TestSnippets runs every program in the customers' documentation against a host, and compares the output with the one
// that the page states. Programs in one language run in one process.
func TestSnippets(t *testing.T) {
	t.Parallel()
	dir, database, host := hosttest.NewHost(t, "--dns=off")
	issued := hosttest.OutputJSON[apikey.Issued](t, dir, database, "keys", "create", "--plan=pro")
	test := hosttest.OutputJSON[apikey.Issued](t, dir, database, "keys", "create", "--test",
		"--account="+issued.Account).Secret
	hosttest.CheckUntilComplete(host, issued.Secret, `{"email":"jane.doe@example.com"}`)

	(&service{host, dir, database, nil}).record(t, issued.Secret, "background.example", privacy.AtOnce+1)
	_, begun := hosttest.Ask(t, host, issued.Secret, "POST", "/gdpr/export", `{"domain":"background.example"}`)
	request, _ := begun["id"].(string)
	expect.Until(t, "the export is done", func() bool {
		_, state := hosttest.Ask(t, host, issued.Secret, "GET", "/gdpr/requests/"+request, "")
		return state["state"] == "done"
	})

	guide := expect.Value(filepath.Glob("../../../docs/guide/*.md"))(t)
	endpoints := expect.Value(filepath.Glob("../../../docs/api/*.md"))(t)
	expect.Must(t, len(guide) >= 5 && len(endpoints) >= 20, "pages %v, %v", guide, endpoints)
	programs := map[string][]snippet{} // by language
	for _, file := range slices.Concat(guide, endpoints) {
		page := strings.TrimSuffix(filepath.Base(file), ".md")
		for _, s := range readSnippets(page, strings.ReplaceAll(hosttest.ReadText(t, file), docs.Host, host.URL)) {
			s.key = issued.Secret
			switch {
			case slices.Contains(endpoints, file):
				s.want = "" // what an endpoint answers is an example
			case slices.Contains([]string{"quickstart", "signup", "payment", "checks", "errors"}, page):
				s.key = test // their values are test values
			}
			programs[s.language] = append(programs[s.language], s)
		}
	}
	environment := append(os.Environ(), "ASSAY_REQUEST="+request, "ASSAY_WEBHOOK_SECRET=whsec_c2VjcmV0IG9uZQ==",
		"PYTHONDONTWRITEBYTECODE=1")
	end := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	expect.EachNamed(t, map[string]func(*testing.T, string, []snippet) *exec.Cmd{
		"sh": shellSnippets, "go": goSnippets, "ts": typeScriptSnippets, "python": pythonSnippets,
	}, func(t *testing.T, language string, prepare func(*testing.T, string, []snippet) *exec.Cmd) {
		all := programs[language]
		expect.Must(t, len(all) >= 5, "the documentation has %d programs", len(all))
		cmd := prepare(t, t.TempDir(), all)
		needs(t, cmd.Args[0], "install Debian's package of that name")
		// Feedback and overrides are removed, so each language has its own.
		ref := hosttest.CheckUntilComplete(host, issued.Secret, `{"domain":"paypa1-secure-login.xyz"}`).Ref
		_, override := hosttest.Ask(t, host, issued.Secret, "POST", "/api/overrides",
			`{"action":"block","domain":"`+language+`.example","reason":"x","expires_at":"`+end+`"}`)
		environment := append(slices.Clone(environment), "ASSAY_REF="+ref,
			fmt.Sprint("ASSAY_OVERRIDE=", override["id"]))
		out, err := untilAccepted(func() ([]byte, error) {
			run := exec.CommandContext(t.Context(), cmd.Args[0], cmd.Args[1:]...)
			run.Env = append(slices.Clone(environment), cmd.Env...)
			return run.CombinedOutput()
		})
		expect.Must(t, err == nil, "%v\n%s", err, out)
		compareOutputs(t, all, string(out))
	})
}

// mark precedes the output of each program, followed by its number.
const mark = "\x1e"

func compareOutputs(t *testing.T, all []snippet, out string) {
	t.Helper()
	outputs := strings.Split(out, mark)[1:]
	expect.Must(t, len(outputs) == len(all), "%d of %d programs ran:\n%s", len(outputs), len(all), out)
	for i, s := range all {
		_, got, _ := strings.Cut(outputs[i], "\n")
		got = strings.TrimSpace(got)
		switch {
		case s.want == "":
			expect.That(t, !strings.Contains(got, "error"), "%s, program %d: %s\n%s", s.page, i, got, s.code)
		case s.language == "sh":
			expect.NoDiff(t, s.page+": the response to\n"+s.code, lasting(t, s.want), lasting(t, got))
		case s.want != got:
			t.Errorf("%s states the output %q, but %q is that of\n%s", s.page, s.want, got, s.code)
		}
	}
}

// varying are the fields of a response that differ each time.
var varying = regexp.MustCompile(`"(timestamp|ref|request_id)":\s*"[^"]+"`)

// lasting returns a response with the same text in all fields that differ each time.
func lasting(t *testing.T, text string) (v any) {
	t.Helper()
	err := json.Unmarshal(varying.ReplaceAll([]byte(text), []byte(`"$1": "some"`)), &v)
	expect.Must(t, err == nil, "%v: %s", err, text)
	return v
}

func shellSnippets(t *testing.T, dir string, all []snippet) *exec.Cmd {
	var script strings.Builder
	for i, s := range all {
		fmt.Fprintf(&script, "printf '\\036%d\\n'\nexport ASSAY_KEY=%s\n(set -e\n%s) 2>/dev/null || echo error $?\n",
			i, s.key, s.code)
	}
	return exec.Command("bash", writeText(t, dir, "run.sh", script.String()))
}

func goSnippets(t *testing.T, dir string, all []snippet) *exec.Cmd {
	var functions, calls strings.Builder
	for i, s := range all {
		fmt.Fprintf(&functions, "func snippet%d(ctx context.Context) error {\n%s\nreturn nil\n}\n\n", i, s.code)
		fmt.Fprintf(&calls, "\trun(%d, %q, snippet%d)\n", i, s.key, i)
	}
	return exec.Command("go", "run", writeText(t, dir, "main.go", `package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"time"

	"assay.example/client"
)

var _, _, _, _, _ = errors.New, io.ReadAll, log.Println, http.Error, time.Now

func run(i int, key string, snippet func(context.Context) error) {
	os.Setenv("ASSAY_KEY", key)
	fmt.Printf("\x1e%d\n", i)
	if err := snippet(context.Background()); err != nil {
		fmt.Println("error:", err)
	}
}

func main() {
`+calls.String()+"}\n\n"+functions.String()))
}

func typeScriptSnippets(t *testing.T, dir string, all []snippet) *exec.Cmd {
	typeScriptClient(t, "../../../sdk/typescript")
	client := expect.Value(filepath.Abs("../../../sdk/typescript"))(t)
	expect.NoError(t, os.Mkdir(filepath.Join(dir, "node_modules"), 0o755))
	expect.NoError(t, os.Symlink(client, filepath.Join(dir, "node_modules", "assay-client")))
	writeText(t, dir, "package.json", `{"type": "module"}`)
	writeText(t, dir, "globals.d.ts", "declare const process: { env: Record<string, string | undefined> };\n")
	writeText(t, dir, "tsconfig.json", `{"compilerOptions": {"target": "es2022", "module": "nodenext", "types": [],
		"lib": ["es2022", "dom"], "strict": true, "rootDir": ".", "outDir": "build"}, "include": ["*.ts"]}`)
	runner := ""
	for i, s := range all {
		writeText(t, dir, strconv.Itoa(i)+".ts", s.code)
		runner += fmt.Sprintf("process.env.ASSAY_KEY = %q;\nprocess.stdout.write('\\x1e%d\\n');\n"+
			"await import('./build/%d.js').catch((e) => console.log('error:', e));\n", s.key, i, i)
	}
	runProgram(t, nil, filepath.Join(client, "node_modules", ".bin", "tsc"), "-p", dir)
	return exec.Command("node", writeText(t, dir, "run.mjs", runner))
}

func pythonSnippets(t *testing.T, dir string, all []snippet) *exec.Cmd {
	runner := "import os\nimport traceback\n\n"
	for i, s := range all {
		file := writeText(t, dir, strconv.Itoa(i)+".py", s.code)
		runner += fmt.Sprintf("os.environ['ASSAY_KEY'] = %q\nprint('\\x1e%d')\ntry:\n"+
			"    exec(compile(open(%q).read(), 'snippet', 'exec'), {})\nexcept Exception as error:\n"+
			"    print('error:', error)\n    traceback.print_exc()\n", s.key, i, file)
	}
	cmd := exec.Command("python3", writeText(t, dir, "run.py", runner))
	cmd.Env = []string{"PYTHONPATH=../../../sdk/python"}
	return cmd
}

// writeText writes a file and returns its path.
func writeText(t *testing.T, dir, name, text string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	expect.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}
