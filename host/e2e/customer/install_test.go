package customer

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"assay/host/hosttest"
	"assay/host/installation"
	"assay/registry/expect"
)

// installed has, for each language, the commands that install a packed client ($RELEASE) in an empty folder, and a
// program that uses it.
var installed = map[string]struct {
	needs, install, file, program, run string
}{
	"go": {"go", `go mod init shop.example/shop &&
		GOPROXY=file://$RELEASE/go GONOSUMDB=assay.example go get assay.example/client@latest && go vet .`, "main.go",
		`package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"assay.example/client"
)

func main() {
	assay := client.New(os.Getenv("ASSAY_URL"), os.Getenv("ASSAY_KEY"))
	result, err := assay.Check(context.Background(), client.Request{Domain: "paypa1-secure-login.xyz"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Verdict)
}
`, "go run ."},
	"python": {"python3", `python3 -m venv env && env/bin/pip install -q --no-index $RELEASE/*.whl`, "shop.py",
		`import os
from assay import Client

print(Client(os.environ["ASSAY_URL"], os.environ["ASSAY_KEY"]).check({"domain": "paypa1-secure-login.xyz"}).verdict)
`, "env/bin/python shop.py"},
	"typescript": {"npm", `npm init -y >/dev/null && npm install --silent --offline $RELEASE/*.tgz &&
		$TSC --strict --module nodenext --target es2022 --lib es2022,dom --types "" shop.mts`, "shop.mts",
		`import { Client } from "assay-client";

declare const process: { env: Record<string, string> };
const assay = new Client(process.env.ASSAY_URL!, process.env.ASSAY_KEY!);
console.log((await assay.check({ domain: "paypa1-secure-login.xyz" })).verdict);
`, "node shop.mjs"},
}

// testInstalledClients packs the clients as a release does, and installs each in an empty folder outside of the
// repository, where a program calls a host with it.
func testInstalledClients(t *testing.T, s *service) {
	typeScriptClient(t, "../../../sdk/typescript") // a release needs its compiler
	release := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "../../../.ci/clients", release).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, file := range []string{"assay-client-*.tgz", "assay_client-*-py3-none-any.whl",
		"go/assay.example/client/@v/v*.zip"} {
		name := strings.Replace(file, "*", installation.Version, 1)
		expect.Equal(t, "the packages "+file, len(expect.Value(filepath.Glob(filepath.Join(release, name)))(t)), 1)
	}
	key := s.account(t, "free").Secret
	tsc := expect.Value(filepath.Abs("../../../sdk/typescript/node_modules/.bin/tsc"))(t)
	for language, c := range installed {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(c.needs); err != nil {
				t.Skipf("this test needs %s: %v", c.needs, err)
			}
			folder := t.TempDir()
			run := func(script string) (string, error) {
				cmd := exec.CommandContext(t.Context(), "bash", "-ec", script)
				cmd.Dir = folder
				// A module cache of its own, which does not know the client.
				cmd.Env = append(cmd.Environ(), "RELEASE="+release, "TSC="+tsc, "ASSAY_URL="+s.URL, "ASSAY_KEY="+key,
					"GOWORK=off", "GOFLAGS=-modcacherw", "GOMODCACHE="+filepath.Join(folder, "modules"))
				out, err := cmd.CombinedOutput()
				return string(out), err
			}
			writeText(t, folder, c.file, c.program)
			if out, err := run(c.install); err != nil {
				t.Fatalf("installing: %v\n%s", err, out)
			}
			var out string
			var err error
			hosttest.UntilAccepted(func() int {
				if out, err = run(c.run); busy.MatchString(out) {
					return http.StatusServiceUnavailable
				}
				return http.StatusOK
			})
			expect.That(t, err == nil && out == "block\n", "%v, %q", err, out)
		})
	}
}

// TestClientModule runs the tests of the Go client, which is a module of its own.
func TestClientModule(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "go", "test", "./...")
	cmd.Dir = "../../../sdk/client"
	out, err := cmd.CombinedOutput()
	expect.Must(t, err == nil, "%v\n%s", err, out)
}
