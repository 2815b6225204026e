package activation_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"assay/registry"
	"assay/registry/activation"
	"assay/registry/expect"
)

// first is a valid activation with every field.
func first() activation.Activation {
	return activation.Activation{
		Number: 7, Previous: registry.Digest{1}, Lineup: activation.Lineup{Revision: 3, Hash: registry.Digest{2}},
		Canary: &activation.Canary{Lineup: activation.Lineup{Revision: 4, Hash: registry.Digest{3}}, Share: 5,
			Limit: 50}, Author: "ana@laptop", Reason: "Fewer false positives for “.ch”",
		At: time.Date(2026, 11, 22, 19, 0, 0, 5e6, time.UTC),
	}
}

const firstText = `assay activation v1
number 7
previous sha256:0100000000000000000000000000000000000000000000000000000000000000
lineup 3 sha256:0200000000000000000000000000000000000000000000000000000000000000
canary 4 sha256:0300000000000000000000000000000000000000000000000000000000000000 5%
limit 0.5%
author ana@laptop
reason Fewer false positives for “.ch”
at 2026-11-22T19:00:00.005Z
`

// The text is what hosts of all releases hash and sign, so it must never change.
func TestText(t *testing.T) {
	t.Parallel()
	expect.NoDiff(t, "text", firstText, first().Text())
	expect.NoDiff(t, "the activation", first(), expect.Value(activation.Parse(firstText))(t))
	short := first()
	short.Previous, short.Canary, short.Reason = registry.Digest{}, nil, ""
	if text := short.Text(); strings.Count(text, "\n") != 6 || !strings.Contains(text, "\nprevious none\n") {
		t.Errorf("without optional fields: %s", text)
	}
	expect.NoDiff(t, "the short activation", short, expect.Value(activation.Parse(short.Text()))(t))
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for name, change := range map[string][2]string{
		"another header":           {"v1", "v2"},
		"a missing line":           {"author ana@laptop\n", ""},
		"lines in another order":   {"number 7\nprevious", "previous"},
		"an unknown field":         {"number 7\n", "number 7\nshare 9\n"},
		"number 0":                 {"number 7", "number 0"},
		"a negative revision":      {"lineup 3", "lineup -3"},
		"a short hash":             {"lineup 3 sha256:02", "lineup 3 sha256:"},
		"a hash in upper case":     {"sha256:01000", "sha256:0A000"},
		"a share of 51%":           {" 5%", " 51%"},
		"a share of 0%":            {" 5%", " 0%"},
		"a share without a unit":   {" 5%", " 5"},
		"a limit above 100%":       {"limit 0.5%", "limit 100.01%"},
		"a negative limit":         {"limit 0.5%", "limit -1%"},
		"a limit of 3 decimals":    {"limit 0.5%", "limit 0.505%"},
		"a limit that is missing":  {"limit 0.5%\n", ""},
		"a limit without a canary": {"canary 4 sha256:03" + strings.Repeat("0", 62) + " 5%\n", ""},
		"a canary of the lineup":   {"canary 4 sha256:03", "canary 4 sha256:02"},
		"a reason of two lines":    {"reason Fewer", "reason \nFewer"},
		"an empty reason":          {"reason Fewer false positives for “.ch”", "reason "},
		"a reason with a tab":      {"Fewer false", "Fewer\tfalse"},
		"a reason ending in space": {"“.ch”\n", "“.ch” \n"},
		"a long author":            {"ana@laptop", strings.Repeat("a", 101)},
		"another time zone":        {"05Z", "05+01:00"},
		"no newline at the end":    {"005Z\n", "005Z"},
	} {
		text := strings.Replace(firstText, change[0], change[1], 1)
		expect.That(t, text != firstText, "%s: the test changes nothing", name)
		expect.Failure(t, expect.ErrorOf(activation.Parse(text)), "%s: parsed", name)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(firstText)
	f.Add(strings.Replace(firstText, "canary", "reason", 1))
	f.Fuzz(func(t *testing.T, text string) {
		a, err := activation.Parse(text)
		if err != nil {
			return
		}
		expect.Equal(t, fmt.Sprintf("%q was parsed, but is written as", text), a.Text(), text)
		expect.Error(t, fmt.Sprintf("%q was parsed, but cannot be signed", text),
			expect.ErrorOf(activation.Sign(a, newKey(t, "fuzz", 1))), nil)
	})
}

func newKey(t *testing.T, name string, seed byte) activation.Key {
	t.Helper()
	return expect.Value(activation.NewKey(name, bytes.Repeat([]byte{seed}, 32)))(t)
}

func TestOpen(t *testing.T) {
	t.Parallel()
	operator, host, stranger := newKey(t, "ana", 1), newKey(t, "assay/host", 2), newKey(t, "eve", 3)
	impostor, former, publisher := newKey(t, "ana", 3), newKey(t, "bob", 4), newKey(t, "eli", 5)
	trust := expect.Value(activation.ParseTrust("# keys\n\noperator " + operator.Verifier + "\nhost " + host.Verifier +
		"\n  former  " + former.Verifier + "\npublisher " + publisher.Verifier))(t)
	sign := func(k activation.Key) string { return expect.Value(activation.Sign(first(), k))(t) }
	for key, role := range map[*activation.Key]activation.Role{
		&operator: activation.Operator, &host: activation.Host, &former: activation.Former,
	} {
		want := activation.Signed{Activation: first(), Hash: first().Hash(), Note: sign(*key), Key: key.Name(),
			Role: role}
		expect.NoDiff(t, "opened", want, expect.Value(trust.Open(sign(*key)))(t))
	}
	good := sign(operator)
	for name, test := range map[string]struct{ signed, reason string }{
		"nothing":            {"", "it is not signed"},
		"no signature":       {firstText, "malformed note"},
		"a stranger's":       {sign(stranger), "key eve, which the trust file does not list"},
		"an operator's name": {sign(impostor), "key ana, which the trust file does not list"},
		"a publisher's":      {sign(publisher), `the role "publisher" may not sign activations`},
		"another text":       {strings.Replace(good, "number 7", "number 8", 1), "invalid signature"},
		"two signatures":     {good + strings.SplitN(sign(stranger), "\n\n", 2)[1], "exactly one signature"},
	} {
		expect.ErrorText(t, name, expect.ErrorOf(trust.Open(test.signed)), test.reason)
	}
}

// A candidate is verified like an activation, and neither can be taken for the other.
func TestOpenCandidate(t *testing.T) {
	t.Parallel()
	operator, stranger := newKey(t, "ana", 1), newKey(t, "eve", 3)
	trust := expect.Value(activation.ParseTrust("operator " + operator.Verifier))(t)
	sign := func(sign func(activation.Activation, note.Signer) (string, error), k activation.Key) string {
		return expect.Value(sign(first(), k))(t)
	}
	candidate := sign(activation.SignCandidate, operator)
	s := expect.Value(trust.OpenCandidate(candidate))(t)
	expect.NoDiff(t, "opened", first(), s.Activation)
	expect.Equal(t, "the hash", s.Hash, first().Hash())
	_, err := activation.Unverified(candidate)
	expect.ErrorText(t, "a candidate as an activation, unverified", err, "first line is not")
	expect.ErrorText(t, "a candidate as an activation", expect.ErrorOf(trust.Open(candidate)), "first line is not")
	for name, test := range map[string]struct{ signed, reason string }{
		"an activation": {sign(activation.Sign, operator), "does not begin with"},
		"a stranger's":  {sign(activation.SignCandidate, stranger), "key eve, which the trust file does not list"},
	} {
		expect.ErrorText(t, name, expect.ErrorOf(trust.OpenCandidate(test.signed)), test.reason)
	}
}

// A lineup to measure is signed by an operator, and can be taken for nothing else.
func TestOpenMeasurement(t *testing.T) {
	t.Parallel()
	operator, host, stranger := newKey(t, "ana", 1), newKey(t, "assay/host", 2), newKey(t, "eve", 3)
	trust := expect.Value(activation.ParseTrust("operator " + operator.Verifier + "\nhost " + host.Verifier))(t)
	const lineup = `{"bias":-1}`
	sign := func(k activation.Key) string { return expect.Value(activation.SignMeasurement([]byte(lineup), k))(t) }
	candidate := expect.Value(activation.SignCandidate(first(), operator))(t)
	expect.Equal(t, "opened", string(expect.Value(trust.OpenMeasurement(sign(operator)))(t)), lineup)
	expect.That(t, activation.IsMeasurement(sign(operator)) && !activation.IsMeasurement(candidate),
		"a measurement is taken for something else, or a candidate for a measurement")
	for name, test := range map[string]struct{ signed, reason string }{
		"a host's":     {sign(host), `the role "host" may not sign it`},
		"a stranger's": {sign(stranger), "key eve, which the trust file does not list"},
		"altered":      {strings.Replace(sign(operator), "-1", "-2", 1), "invalid signature"},
		"a candidate":  {candidate, "does not begin with"},
	} {
		expect.ErrorText(t, name, expect.ErrorOf(trust.OpenMeasurement(test.signed)), test.reason)
	}
	expect.ErrorText(t, "as a candidate", expect.ErrorOf(trust.OpenCandidate(sign(operator))), "does not begin with")
}

func TestParseTrustRefuses(t *testing.T) {
	t.Parallel()
	operator := "operator " + newKey(t, "ana", 1).Verifier
	for name, test := range map[string]struct{ text, reason string }{
		"an empty file":   {"# nothing\n", "no operator's key"},
		"only a host":     {"host " + newKey(t, "assay/host", 2).Verifier, "no operator's key"},
		"an unknown role": {"admin" + strings.TrimPrefix(operator, "operator"), `line 1: role "admin"`},
		"a third word":    {operator + " please", "not a role and a key"},
		"a damaged key":   {operator + "\nhost x" + newKey(t, "assay/host", 2).Verifier, "line 2: invalid verifier"},
		"half a digest":   {operator + "\nrevoked sha256:00", "line 2: it is not sha256: and 64 hexadecimal digits"},
		"two roles":       {operator + "\nhost" + strings.TrimPrefix(operator, "operator"), "listed twice"},
	} {
		expect.ErrorText(t, name, expect.ErrorOf(activation.ParseTrust(test.text)), test.reason)
	}
}

func TestParseKey(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ana@laptop", 9)
	again, err := activation.ParseKey(key.Private)
	expect.That(t, err == nil && again.Verifier == key.Verifier && again.Name() == "ana@laptop", "%+v, %v, want %+v",
		again, err, key)
	for _, text := range []string{"", key.Verifier, key.Private + "x"} {
		expect.Failure(t, expect.ErrorOf(activation.ParseKey(text)), "%q was read", text)
	}
	expect.Failure(t, expect.ErrorOf(activation.NewKey("a b", make([]byte, 32))), "a name with a space was accepted")
}

func layer(name, mode string, required bool) registry.LineupLayer {
	return registry.LineupLayer{Layer: name + "@1.0.0", Mode: mode, Weight: registry.ForAll(3), Required: required}
}

// A host's key does not do an operator's work.
func TestPermit(t *testing.T) {
	t.Parallel()
	base := registry.LineupDocument{Bias: registry.ForAll(-4), Bands: registry.Bands{Review: 40, Block: 70},
		Layers: []registry.LineupLayer{layer("lexical", "", true), layer("network", "", false),
			layer("mailbox", registry.ModeLive, false), layer("old", registry.ModeShadow, false)}}
	canary := &activation.Canary{Lineup: activation.Lineup{Revision: 2, Hash: registry.Digest{2}}, Share: 5}
	other, lax := *canary, *canary
	other.Share, lax.Limit = 6, 10_000
	shadow := func(i int) func(*registry.LineupDocument) {
		return func(l *registry.LineupDocument) { l.Layers[i].Mode = registry.ModeShadow }
	}
	for name, test := range map[string]struct {
		canary, next *activation.Canary
		change       func(*registry.LineupDocument)
		reason       string // "" if a host may
	}{
		"withdraw a canary":      {canary: canary},
		"shadow":                 {change: shadow(1)},
		"shadow beside a canary": {canary: canary, next: canary, change: shadow(2)},
		"nothing":                {reason: "changes nothing"},
		"repeat a canary":        {canary: canary, next: canary, reason: "changes nothing"},
		"start a canary":         {next: canary, reason: "may not start or change a canary"},
		"enlarge a canary":       {canary: canary, next: &other, reason: "may not start or change a canary"},
		"trust a canary":         {canary: canary, next: &lax, reason: "may not start or change a canary"},
		"withdraw and shadow":    {canary: canary, reason: "not both", change: shadow(1)},
		"shadow two": {reason: "only move one layer", change: func(l *registry.LineupDocument) {
			l.Layers[1].Mode, l.Layers[2].Mode = "shadow", "shadow"
		}},
		"shadow a required layer": {reason: "only move one layer", change: shadow(0)},
		"shadow a layer by dropping that it is required": {reason: "only move one layer",
			change: func(l *registry.LineupDocument) { l.Layers[0].Mode, l.Layers[0].Required = "shadow", false }},
		"turn a layer off": {reason: "only move one layer",
			change: func(l *registry.LineupDocument) { l.Layers[1].Mode = "off" }},
		"bring a layer back": {reason: "only move one layer",
			change: func(l *registry.LineupDocument) { l.Layers[3].Mode = "" }},
		"reweigh": {reason: "only move one layer",
			change: func(l *registry.LineupDocument) { l.Layers[1].Weight = registry.ForAll(0) }},
		"shadow and reweigh": {reason: "only move one layer", change: func(l *registry.LineupDocument) {
			l.Layers[1].Mode, l.Layers[2].Weight = "shadow", registry.ForAll(0)
		}},
		"shadow another module": {reason: "only move one layer", change: func(l *registry.LineupDocument) {
			l.Layers[1].Mode, l.Layers[1].Layer = "shadow", "network@2.0.0"
		}},
		"drop a layer": {reason: "only move one layer",
			change: func(l *registry.LineupDocument) { l.Layers = l.Layers[:3] }},
		"lower a band": {reason: "only move one layer",
			change: func(l *registry.LineupDocument) { l.Bands.Block = 41 }},
	} {
		from := activation.Step{Activation: activation.Activation{Number: 1, Lineup: activation.Lineup{Revision: 1},
			Canary: test.canary}, Document: base}
		to := from
		to.Number, to.Canary = 2, test.next
		to.Document.Layers = append([]registry.LineupLayer{}, base.Layers...)
		if test.change != nil {
			test.change(&to.Document)
			to.Lineup.Revision = 3
		}
		expect.Outcome(t, name, activation.Permit(activation.Host, from, to), test.reason)
		far, builtIn := to, to
		far.Number, builtIn.Author = 3, activation.BuiltIn
		expect.ErrorText(t, "far, "+name, activation.Permit(activation.Host, from, far), "number 3 after 1")
		expect.ErrorText(t, "built-in, "+name, activation.Permit(activation.Host, from, builtIn), "as built-in")
		expect.Error(t, "an operator, "+name, activation.Permit(activation.Operator, from, to), nil)
		expect.ErrorText(t, "a former key, "+name, activation.Permit(activation.Former, from, to), "may not sign")
	}
}
