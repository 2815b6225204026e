package customer

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/customer/webhook"
	"assay/host/hosttest"
	"assay/host/installation"
	"assay/registry/expect"
)

// testReceivers runs the webhook receivers in examples/, also against forged requests.
func testReceivers(t *testing.T, s *service) {
	b := hosttest.OpenStore(t, s.dir, s.database)
	// The receiver is built, because killing go run does not kill the program that it runs.
	built := filepath.Join(t.TempDir(), "receiver-go")
	runProgram(t, nil, "go", "build", "-o", built, "../../../examples/receiver-go")
	expect.Each(t, map[string][]string{
		"go":     {built},
		"node":   {"node", "../../../examples/receiver-node/receiver.mjs"},
		"python": {"python3", "../../../examples/receiver-python/receiver.py"},
	}, func(t *testing.T, command []string) {
		needs(t, command[0], "see examples/README.md")
		issued := s.account(t, "pro")
		secret := expect.Value(b.Store.SetEndpoint(t.Context(), issued.Account, "https://receiver.example"))(t)
		url, lines := startReceiver(t, secret, command...)
		expect.NoError(t, b.Store.MoveEndpoint(t.Context(), issued.Account, url))
		a := hosttest.CheckOnce(s.HostProcess, issued.Secret, hosttest.BlockedDomain)
		expect.Equal(t, "the receiver printed", nextLine(t, lines), fmt.Sprintf("%s %s paypa1-secure-login.xyz %d %s",
			a.Event(), strings.ToUpper(a.Verdict), a.Score, a.Ref))
		// After a rotation, the receiver still accepts events with the old secret.
		expect.Value(b.Store.RotateSecret(t.Context(), issued.Account, webhook.SecretOverlap))(t)
		ref := expect.Value(b.Store.SendTestEvent(t.Context(), issued.Account, check.Review))(t)
		expect.Equal(t, "the receiver printed", nextLine(t, lines), "check.review REVIEW test.example 40 "+ref)

		body := `{"event":"check.blocked","timestamp":"","data":{"query":"é.example","type":"domain",` +
			`"verdict":"BLOCK","score":1,"signals":[],"ref":"chk_1"}}`
		now := time.Now()
		for _, c := range []struct {
			name, id, signed, sent string
			at                     time.Time
			secret                 string
			status                 int
		}{
			{"genuine", "chk_1", body, body, now, secret, 204},
			{"duplicate", "chk_1", body, body, now, secret, 204},
			{"wrong secret", "chk_2", body, body, now, "whsec_" + strings.Repeat("A", 44), 401},
			{"altered body", "chk_3", body, strings.Replace(body, "BLOCK", "ALLOW", 1), now, secret, 401},
			{"too old", "chk_4", body, body, now.Add(-6 * time.Minute), secret, 401},
			{"from the future", "chk_5", body, body, now.Add(6 * time.Minute), secret, 401},
			{"unsigned", "chk_6", body, body, now, "", 401},
			{"too large", "chk_7", body, strings.Repeat(" ", 1<<20), now, secret, 413},
		} {
			expect.Equal(t, c.name, forge(t, url, c.secret, c.id, c.signed, c.sent, c.at), c.status)
		}
		// Malformed requests without a valid signature do not block or stop the receiver.
		for name, header := range map[string]string{
			"negative length":    "Content-Length: -1\r\n\r\n{",
			"non-numeric length": "Content-Length: some\r\n\r\n{",
			"overlong timestamp": "Content-Length: 2\r\nwebhook-timestamp: " + strings.Repeat("9", 5000) + "\r\n\r\n{}",
		} {
			expect.Equal(t, name+": hundreds of the status", sendRaw(t, url, header, true)/100, 4)
		}
		sendRaw(t, url, "Content-Length: 100\r\n\r\n{", false)
		expect.Equal(t, "after an aborted request", forge(t, url, secret, "chk_1", body, body, now), 204)
		expect.Equal(t, "the receiver printed", nextLine(t, lines), "check.blocked BLOCK é.example 1 chk_1")
		// Only one of these requests was accepted, once: the next line is the next event's.
		forge(t, url, secret, "chk_9", body, body, now)
		expect.Equal(t, "the receiver printed", nextLine(t, lines), "check.blocked BLOCK é.example 1 chk_1")
		expect.Equal(t, "further lines", len(lines), 0)
	})
}

// startReceiver starts a receiver on a free port and returns its URL and the lines that it prints.
func startReceiver(t *testing.T, secret string, command ...string) (url string, lines <-chan string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...) // killed at the end of the test
	cmd.Env = append(cmd.Environ(), "ASSAY_WEBHOOK_SECRET="+secret, "LISTEN=127.0.0.1:0",
		"PYTHONPATH=../../../sdk/python", "PYTHONDONTWRITEBYTECODE=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out := expect.Value(cmd.StdoutPipe())(t)
	expect.NoError(t, cmd.Start())
	printed := make(chan string, 1000)
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			printed <- s.Text()
		}
		close(printed)
		_ = cmd.Wait()
	}()
	url, ok := strings.CutPrefix(nextLine(t, printed), "listening on ")
	expect.Must(t, ok, "the receiver did not start:\n%s", stderr.String())
	return url, printed
}

func nextLine(t *testing.T, lines <-chan string) string {
	t.Helper()
	select {
	case line := <-lines:
		return line
	case <-time.After(time.Minute):
		t.Fatal("the receiver printed nothing")
		panic("unreachable")
	}
}

// sendRaw posts a malformed request that an HTTP client would not send, and returns the status of the response. If
// readResponse is false, it closes the connection instead and returns 0.
func sendRaw(t *testing.T, url, header string, readResponse bool) int {
	t.Helper()
	conn := expect.Value(net.Dial("tcp", strings.TrimPrefix(url, "http://")))(t)
	defer conn.Close()
	expect.Value(fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: x\r\n"+header))(t)
	if !readResponse {
		return 0
	}
	expect.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	expect.Must(t, err == nil, "no response to %.40q: %v", header, err)
	defer response.Body.Close()
	return response.StatusCode
}

// forge posts a body with the signature of the body signed, or without one if secret is empty.
func forge(t *testing.T, url, secret, id, signed, sent string, at time.Time) int {
	t.Helper()
	request := expect.Value(http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(sent)))(t)
	request.Header.Set("webhook-id", id)
	request.Header.Set("webhook-timestamp", fmt.Sprint(at.Unix()))
	if secret != "" {
		signature := hosttest.StandardSignature(secret, hosttest.Call{Header: request.Header, Body: []byte(signed)})
		request.Header.Set("webhook-signature", "v1,AAAA "+signature)
	}
	response, err := http.DefaultClient.Do(request)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		// The receiver closed the connection before it had read the whole body, so its response may be lost.
		return http.StatusRequestEntityTooLarge
	}
	expect.NoError(t, err)
	defer response.Body.Close()
	return response.StatusCode
}

// installed has the commands that install a packed client ($RELEASE) in an empty folder, and a program that uses it.
type installable struct{ needs, install, file, program, run string }

var installed = map[string]installable{
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

// testInstalledClients packs the clients as a release does, and installs and uses each in an empty folder.
func testInstalledClients(t *testing.T, s *service) {
	typeScriptClient(t, "../../../sdk/typescript") // a release needs its compiler
	release := t.TempDir()
	runProgram(t, nil, "../../../.ci/clients", release)
	for _, file := range []string{"assay-client-*.tgz", "assay_client-*-py3-none-any.whl",
		"go/assay.example/client/@v/v*.zip"} {
		name := strings.Replace(file, "*", installation.Version, 1)
		expect.Equal(t, "the packages "+file, len(expect.Value(filepath.Glob(filepath.Join(release, name)))(t)), 1)
	}
	key := s.account(t, "free").Secret
	tsc := expect.Value(filepath.Abs("../../../sdk/typescript/node_modules/.bin/tsc"))(t)
	expect.EachNamed(t, installed, func(t *testing.T, language string, c installable) {
		needs(t, c.needs, "see sdk/"+language)
		folder := t.TempDir()
		run := func(script string) ([]byte, error) {
			cmd := exec.CommandContext(t.Context(), "bash", "-ec", script)
			cmd.Dir = folder
			// A module cache of its own, which does not know the client.
			cmd.Env = append(cmd.Environ(), "RELEASE="+release, "TSC="+tsc, "ASSAY_URL="+s.URL, "ASSAY_KEY="+key,
				"GOWORK=off", "GOFLAGS=-modcacherw", "GOMODCACHE="+filepath.Join(folder, "modules"))
			return cmd.CombinedOutput()
		}
		writeText(t, folder, c.file, c.program)
		out, err := run(c.install)
		expect.Must(t, err == nil, "installing: %v\n%s", err, out)
		out, err = untilAccepted(func() ([]byte, error) { return run(c.run) })
		expect.That(t, err == nil && string(out) == "block\n", "%v, %q", err, out)
	})
}

// TestClientModule runs the tests of the Go client, which is a module of its own.
func TestClientModule(t *testing.T) {
	t.Parallel()
	runProgram(t, nil, "go", "test", "-C", "../../../sdk/client", "./...")
}
