package release_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"assay/registry"
	"assay/registry/activation"
	"assay/registry/expect"
	"assay/registry/release"
)

func newKey(t *testing.T, name string, seed byte) activation.Key {
	t.Helper()
	return expect.Value(activation.NewKey(name, bytes.Repeat([]byte{seed}, 32)))(t)
}

func sign(t *testing.T, r release.Release, key activation.Key) string {
	t.Helper()
	return expect.Value(release.Sign(r, key))(t)
}

// signedText is what publishers of all releases sign, so it must never change.
const signedText = `assay plugin v1
name probe
version 1.0.0
digest sha256:0100000000000000000000000000000000000000000000000000000000000000

— ana `

func TestAccept(t *testing.T) {
	t.Parallel()
	ana, operator, host, former, eve := newKey(t, "ana", 1), newKey(t, "ona", 2), newKey(t, "assay/host", 3),
		newKey(t, "fay", 4), newKey(t, "eve", 5)
	bad := registry.Digest{9}
	trust := expect.Value(activation.ParseTrust("operator " + operator.Verifier + "\npublisher " + ana.Verifier +
		"\nhost " + host.Verifier + "\nformer " + former.Verifier + "\nrevoked " + bad.String()))(t)
	probe := release.Release{Name: "probe", Version: "1.0.0", Digest: registry.Digest{1}}
	newer, other, same := probe, probe, probe
	newer.Version, newer.Digest = "2.0.0", registry.Digest{2}
	other.Name, other.Digest = "other", registry.Digest{3}
	same.Digest = registry.Digest{4}
	renamed, revoked := probe, probe
	renamed.Name, revoked.Digest = "other", bad
	good := sign(t, probe, ana)
	expect.That(t, strings.HasPrefix(good, signedText), "signed %s", good)
	for name, test := range map[string]struct {
		of         release.Release
		signatures []string
		by         string
		want       registry.Reason // "": it is accepted
	}{
		"a publisher's":                       {probe, []string{good}, "ana", ""},
		"an operator's":                       {probe, []string{sign(t, probe, operator)}, "ona", ""},
		"a stranger's and a good":             {probe, []string{sign(t, probe, eve), good}, "ana", ""},
		"none":                                {probe, nil, "", registry.Unsigned},
		"an empty one":                        {probe, []string{""}, "", registry.Unsigned},
		"a stranger's":                        {probe, []string{sign(t, probe, eve)}, "", registry.UntrustedKey},
		"a host's":                            {probe, []string{sign(t, probe, host)}, "", registry.UntrustedKey},
		"a former key's":                      {probe, []string{sign(t, probe, former)}, "", registry.RevokedKey},
		"a revoked plugin's":                  {revoked, []string{sign(t, revoked, ana)}, "", registry.RevokedPlugin},
		"a revoked plugin, signed as another": {revoked, []string{good}, "", registry.RevokedPlugin},
		"one that was altered": {probe, []string{strings.Replace(good, "1.0.0", "1.0.1", 1)}, "",
			registry.Altered},
		"a long one": {probe, []string{strings.Repeat("x", release.MaxBytes+1)}, "",
			registry.Oversized},
		"that of another module":     {same, []string{good}, "", registry.Altered},
		"that of the version before": {newer, []string{good}, "", registry.Swapped},
		"that of another plugin":     {other, []string{good}, "", registry.Swapped},
		"that of another name":       {renamed, []string{good}, "", registry.OtherName},
	} {
		signature, signed, err := release.Accept(trust, test.of, test.signatures...)
		if test.want == "" {
			expect.That(t, err == nil && signed.Release == test.of && signed.Key == test.by &&
				signature == test.signatures[len(test.signatures)-1], "%s: %+v, %v", name, signed, err)
			continue
		}
		var refused *registry.Refusal
		expect.That(t, errors.As(err, &refused) && refused.Reason == test.want, "%s: %v, want it to be refused as %q",
			name, err, test.want)
	}
	// Signatures of published plugins remain verifiable. Other notes of the same keys are not signatures.
	expect.Error(t, "a former key's of a revoked plugin, recorded",
		expect.ErrorOf(release.Recorded(trust, sign(t, revoked, former))), nil)
	activated := expect.Value(activation.SignMeasurement([]byte("{}"), operator))(t)
	for name, signed := range map[string]string{
		"another text": activated, "another line": sign(t, release.Release{Name: "a\nb", Version: "1.0.0"}, ana),
	} {
		expect.Failure(t, expect.ErrorOf(release.Recorded(trust, signed)), "%s: it was accepted as a release", name)
	}
}
