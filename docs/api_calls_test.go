package docs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// call is how a customer's program makes a documented request.
type call struct {
	query string // of the curl command
	body  string // of the curl command; empty: the document's first example
	kind  string // how the clients' calls below are used: "", "none" (no result), "each" (an iterator)

	golang, ts, python string // empty: see is the sentence instead
	see                string
}

const (
	inADay  = `time.Now().Add(24 * time.Hour)`
	waiting = "The clients' calls to export and erase wait for requests in the background."
)

// calls has each documented request of customers, by its operation. Their programs are run: see TestSnippets.
var calls = map[string]call{
	"check": {
		golang: `assay.Check(ctx, client.Request{Domain: "paypa1-secure-login.xyz"})`,
		ts:     `assay.check({ domain: "paypa1-secure-login.xyz" })`,
		python: `assay.check({"domain": "paypa1-secure-login.xyz"})`,
	},
	"checkBatch": {
		golang: `assay.CheckBatch(ctx, []client.Request{
	{Email: "jane.doe@example.com"}, {IBAN: "DE89370400440532013000"},
})`,
		ts:     `assay.checkBatch([{ email: "jane.doe@example.com" }, { iban: "DE89370400440532013000" }])`,
		python: `assay.check_batch([{"email": "jane.doe@example.com"}, {"iban": "DE89370400440532013000"}])`,
		body:   `{"checks":[{"email":"jane.doe@example.com"},{"iban":"DE89370400440532013000"}]}`,
	},
	"checkPublic": {
		golang: `assay.CheckPublic(ctx, "paypa1-secure-login.xyz")`,
		ts:     `assay.checkPublic("paypa1-secure-login.xyz")`, python: `assay.check_public("paypa1-secure-login.xyz")`,
	},
	"events": {
		query: "?after=41", kind: "each",
		golang: `assay.Events(ctx, 41)`, ts: `assay.events(41)`, python: `assay.events(41)`,
	},
	"giveFeedback": {
		kind: "none", golang: `assay.GiveFeedback(ctx, client.Feedback{Ref: ref, Label: "fraud"})`,
		ts: `assay.giveFeedback({ ref, label: "fraud" })`, python: `assay.give_feedback(ref, "fraud")`,
		body: `{"ref":"REF","label":"fraud"}`,
	},
	"revokeFeedback": {
		query: "?ref=REF", kind: "none",
		golang: `assay.RevokeFeedback(ctx, ref)`, ts: `assay.revokeFeedback(ref)`, python: `assay.revoke_feedback(ref)`,
	},
	"addOverride": {
		golang: `assay.SetOverride(ctx, client.OverrideRequest{
	Action: client.Allow, RegistrableDomain: "example.net", Reason: "Our supplier.",
	ExpiresAt: ` + inADay + `,
})`,
		ts: `assay.setOverride({
  action: "allow", registrable_domain: "example.net", reason: "Our supplier.",
  expires_at: new Date(Date.now() + 86_400_000),
})`,
		python: `assay.set_override(
    "allow", {"registrable_domain": "example.net"}, "Our supplier.", datetime.now(UTC) + timedelta(days=1)
)`,
		body: `{"action":"allow","registrable_domain":"example.net","reason":"Our supplier.","expires_at":"TOMORROW"}`,
	},
	"listOverrides": {golang: `assay.Overrides(ctx)`, ts: `assay.overrides()`, python: `assay.overrides()`},
	"removeOverride": {
		query: "?id=OVERRIDE", kind: "none",
		golang: `assay.RemoveOverride(ctx, id)`, ts: `assay.removeOverride(id)`, python: `assay.remove_override(id)`,
	},
	"searchChecks": {
		kind:   "each",
		golang: `assay.Search(ctx, client.Query{Verdict: client.Block, From: time.Now().AddDate(0, 0, -7)})`,
		ts:     `assay.search({ verdict: "block", from: new Date(Date.now() - 7 * 86_400_000) })`,
		python: `assay.search({"verdict": "block", "from": datetime.now(UTC) - timedelta(days=7)})`,
	},
	"exportChecks": {
		query:  "?format=csv&verdict=block",
		golang: `assay.ExportChecks(ctx, "csv", client.Query{Verdict: client.Block})`,
		ts:     `assay.exportChecks("csv", { verdict: "block" })`,
		python: `assay.export_checks("csv", {"verdict": "block"})`,
	},
	"showUsage": {golang: `assay.Usage(ctx, "")`, ts: `assay.usage()`, python: `assay.usage()`},
	"showCheck": {
		golang: `assay.RecordedCheck(ctx, ref)`, ts: `assay.recordedCheck(ref)`, python: `assay.recorded_check(ref)`,
	},
	"showReceipt": {golang: `assay.Receipt(ctx, ref)`, ts: `assay.receipt(ref)`, python: `assay.receipt(ref)`},
	"exportByValue": {
		golang: `assay.Export(ctx, client.Subject{Email: "jane.doe@example.com"})`,
		ts:     `assay.export({ email: "jane.doe@example.com" })`,
		python: `assay.export({"email": "jane.doe@example.com"})`, body: `{"email":"jane.doe@example.com"}`,
	},
	"export": {
		query: "?ref=REF", golang: `assay.Export(ctx, client.Subject{Ref: ref})`,
		ts: `assay.export({ ref })`, python: `assay.export({"ref": ref})`,
	},
	"erase": {
		kind: "none", golang: `assay.Erase(ctx, client.Subject{Email: "jane.doe@example.com"})`,
		ts: `assay.erase({ email: "jane.doe@example.com" })`, python: `assay.erase({"email": "jane.doe@example.com"})`,
		body: `{"email":"jane.doe@example.com"}`,
	},
	"privacyRequest": {see: waiting},
	"downloadExport": {see: waiting},
	"subject": {
		golang: `assay.SubjectRef(ctx, client.Subject{Email: "jane.doe@example.com"})`,
		ts:     `assay.subjectRef({ email: "jane.doe@example.com" })`,
		python: `assay.subject_ref({"email": "jane.doe@example.com"})`,
	},
	"explain": {
		golang: `assay.Explain(ctx, ref, client.Request{Domain: "paypa1-secure-login.xyz"})`,
		ts:     `assay.explain(ref, { domain: "paypa1-secure-login.xyz" })`,
		python: `assay.explain(ref, {"domain": "paypa1-secure-login.xyz"})`,
		body:   `{"ref":"REF","domain":"paypa1-secure-login.xyz"}`,
	},
	"showReview": {
		query: "?ref=REF", golang: `assay.Review(ctx, ref)`, ts: `assay.review(ref)`, python: `assay.review(ref)`,
	},
	"askReview": {
		golang: `assay.AskReview(ctx, client.ReviewRequest{Ref: ref, Reason: "The shop is ten years old."})`,
		ts:     `assay.askReview({ ref, reason: "The shop is ten years old." })`,
		python: `assay.ask_review(ref, "The shop is ten years old.")`,
		body:   `{"ref":"REF","reason":"The shop is ten years old."}`,
	},
	"receiveEvent": {see: "[Webhooks](../guide/webhooks.md) has receivers in three languages."},
}

// programs are how programs in each language begin, read a variable, and use a call, by its kind.
var programs = []struct {
	name, begin, given string
	use                map[string]string
}{
	{"go", "assay := client.New(\"" + Host + "\", os.Getenv(\"ASSAY_KEY\"))\n", "%s := os.Getenv(%q)\n",
		map[string]string{
			"":     "result, err := %s\nif err != nil {\n\treturn err\n}\nfmt.Printf(\"%%+v\\n\", result)",
			"none": "return %s",
			"each": "for one, err := range %s {\n\tif err != nil {\n\t\treturn err\n\t}\n" +
				"\tfmt.Printf(\"%%+v\\n\", one)\n}",
		}},
	{"ts", "import { Client } from \"assay-client\";\n\nconst assay = new Client(\"" + Host +
		"\", process.env.ASSAY_KEY!);\n", "const %s = process.env.%s!;\n", map[string]string{
		"": "console.log(await %s);", "none": "await %s;", "each": "for await (const one of %s) console.log(one);"}},
	{"python", "import os\nfrom assay import Client\n\nassay = Client(\"" + Host + "\", os.environ[\"ASSAY_KEY\"])\n",
		"%s = os.environ[%q]\n", map[string]string{
			"": "print(%s)", "none": "%s", "each": "for one in %s:\n    print(one)"}},
}

// snippets returns the programs that make a request, as tabs.
func (o operation) snippets(example string) string {
	c := calls[o.ID]
	var b strings.Builder
	if strings.HasPrefix(o.path, "/") {
		b.WriteString(fenced("sh", o.curl(c, example)))
	}
	if c.see != "" {
		return b.String() + c.see + "\n\n"
	}
	for i, code := range []string{c.golang, c.ts, c.python} {
		l := programs[i]
		program := l.begin + given(code, l.given) + fmt.Sprintf(l.use[c.kind], code)
		if regexp.MustCompile("Export|Receipt|SubjectRef").MatchString(code) { // in Go, they return texts
			program = strings.Replace(program, "%+v", "%s", 1)
		}
		if strings.Contains(code, "datetime") {
			program = strings.Replace(program, "\n", "\nfrom datetime import UTC, datetime, timedelta\n", 1)
		}
		b.WriteString(fenced(l.name, program))
	}
	return b.String()
}

func fenced(language, code string) string { return fmt.Sprintf("```%s\n%s\n```\n\n", language, code) }

// curl returns a command whose placeholders are variables of the shell.
func (o operation) curl(c call, example string) string {
	address := Host + strings.NewReplacer("{ref}", "REF", "{id}", "REQUEST").Replace(o.path) + c.query
	body := c.body
	if body == "" && example != "" {
		var text bytes.Buffer
		if err := json.Compact(&text, []byte(example)); err != nil {
			panic(err) // it was indented
		}
		body = text.String()
	}
	var lines []string
	if strings.ContainsAny(address, "?&") || strings.Contains(address, "RE") {
		lines = append(lines, `curl "`+strings.NewReplacer("REF", "$ASSAY_REF", "REQUEST", "$ASSAY_REQUEST",
			"OVERRIDE", "$ASSAY_OVERRIDE").Replace(address)+`"`)
	} else {
		lines = append(lines, "curl "+address)
	}
	if o.method == "DELETE" {
		lines[0] = strings.Replace(lines[0], "curl", "curl -X DELETE", 1)
	}
	if len(o.Security) > 0 {
		lines = append(lines, `-H "Authorization: Bearer $ASSAY_KEY"`)
	}
	if body != "" {
		lines = append(lines, "-d '"+strings.NewReplacer(`"REF"`, `"'"$ASSAY_REF"'"`,
			"TOMORROW", `'"$(date -u -d tomorrow +%FT%TZ)"'`).Replace(body)+"'")
	}
	return strings.Join(lines, " \\\n  ")
}

// variables are the names that calls refer to, with the variables of the environment that have their values.
var variables = []struct{ name, variable string }{{"ref", "ASSAY_REF"}, {"id", "ASSAY_OVERRIDE"}}

// given returns a line for each variable that code refers to.
func given(code, line string) (lines string) {
	for _, v := range variables {
		if regexp.MustCompile(`[^.\w"]` + v.name + `(\W|$)`).MatchString(strings.ReplaceAll(code, `"ref":`, "")) {
			lines += fmt.Sprintf(line, v.name, v.variable)
		}
	}
	return lines
}
