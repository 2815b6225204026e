package feed

import (
	"archive/zip"
	"bytes"
	"fmt"
	"strings"
	"testing"

	"assay/registry/expect"
)

func TestRanked(t *testing.T) {
	t.Parallel()
	want := []string{"domain popular.example 1", "domain shop.example 3"}
	expect.Each(t, map[string]string{
		"Tranco":              "1,popular.example\r\n3,shop.example\r\n",
		"Umbrella":            "1,com\n1,popular.example\n2,net\n3,Shop.example\n",
		"Majestic":            "GlobalRank,TldRank,Domain,TLD\n1,1,popular.example,example\n3,2,shop.example,example\n",
		"a rank after a name": "domain;rank\npopular.example;1\nshop.example;3\n",
		"URLs":                "rank,url\n1,https://popular.example\n3,https://shop.example/\n",
	}, func(t *testing.T, list string) {
		got, report, err := read(t, strings.NewReader(list), Options{Ranked: true})
		expect.NoDiff(t, "entries", want, got)
		expect.That(t, err == nil && report.Malformed == 0, "%v, report %+v", err, report)
	})
	for name, test := range map[string]struct{ list, want string }{
		"names without ranks": {"domain,name\npopular.example,x\n", errNoRank.Error()},
		"plain names":         {"popular.example\nshop.example\n", "must be CSV"},
	} {
		_, _, err := read(t, strings.NewReader(test.list), Options{Ranked: true})
		expect.That(t, err != nil && strings.Contains(err.Error(), test.want), "%s: %v, want %q", name, err, test.want)
	}
	got, report, err := read(t, strings.NewReader("1,popular.example\nx,b.example\n0,c.example\n-1,d.example\n"),
		Options{Ranked: true})
	expect.That(t, err == nil && len(got) == 1 && report.Malformed == 3 && report.Examples[0].Reason == "has no rank",
		"malformed ranks: %v, %+v, %v", got, report, err)
}

// zipArchive returns a ZIP file of files with the given contents.
func zipArchive(t *testing.T, contents ...string) []byte {
	t.Helper()
	var buffer bytes.Buffer
	w := zip.NewWriter(&buffer)
	for i, text := range contents {
		f := expect.Value(w.Create(fmt.Sprintf("top-%dm.csv", i+1)))(t)
		expect.Value(f.Write([]byte(text)))(t)
	}
	expect.NoError(t, w.Close())
	return buffer.Bytes()
}

func TestZIP(t *testing.T) {
	t.Parallel()
	archive := zipArchive(t, "1,popular.example\n")
	got, _, err := read(t, bytes.NewReader(archive), Options{Ranked: true})
	expect.That(t, err == nil && len(got) == 1, "read %v, %v", got, err)
	broken := bytes.Clone(archive)
	broken[bytes.Index(broken, []byte("PK\x01\x02"))+16]++ // in the checksum
	for name, test := range map[string]struct {
		data []byte
		want string
	}{
		"cut":       {archive[:len(archive)-5], "not a valid zip file"},
		"two files": {zipArchive(t, "a", "b"), "2 files instead of one"},
		"too large": {append(bytes.Clone(archive), make([]byte, maxZIP)...), "larger than 64 MiB"},
		"altered":   {broken, "checksum"},
	} {
		_, _, err := read(t, bytes.NewReader(test.data), Options{})
		expect.That(t, err != nil && strings.Contains(err.Error(), test.want), "%s: %v, want %q", name, err, test.want)
	}
}
