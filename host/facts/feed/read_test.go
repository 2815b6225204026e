package feed

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"assay/host/entity"
	"assay/registry/expect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// read reads a whole list and returns its entries as sorted text.
func read(t testing.TB, in io.Reader, o Options) ([]string, Report, error) {
	t.Helper()
	if o.Now == nil {
		o.Now = func() time.Time { return time.Date(2031, 5, 20, 12, 0, 0, 0, time.UTC) }
	}
	r, err := Open(context.Background(), in, o)
	if err != nil {
		return nil, Report{}, err
	}
	defer r.Close()
	found := []string{}
	for {
		entries, err := r.Next()
		if errors.Is(err, io.EOF) {
			slices.Sort(found)
			return found, r.Report(), nil
		}
		if err != nil {
			return found, r.Report(), err
		}
		for _, e := range entries {
			text := string(e.Type) + " " + e.Value
			if e.Page {
				text += " page"
			}
			if e.Category != "" {
				text += " " + e.Category
			}
			if e.Rank > 0 {
				text += fmt.Sprintf(" %d", e.Rank)
			}
			found = append(found, text)
		}
	}
}

func TestFormats(t *testing.T) {
	t.Parallel()
	type testCase struct {
		list               string
		options            Options
		format             Format // detected, or the given one
		want               []string
		malformed, skipped int64
	}
	expect.Each(t, map[string]testCase{
		"hosts": {
			list: "# a list\n127.0.0.1 localhost\n::1 ip6-localhost ip6-loopback\n0.0.0.0 0.0.0.0\n" +
				"0.0.0.0 Bad.example worse.example # both\n\n0.0.0.0\ttracker.example\n" +
				"0.0.0.0 b_ad.example\n0.0.0.0\n",
			format: Hosts, want: []string{"domain bad.example", "domain tracker.example", "domain worse.example"},
			malformed: 2, skipped: 4,
		},
		"plain": {
			list: "; all kinds\nbad.example\nhttps://phish.example/\n" +
				"https://docs.example/forms/d/1?x=2\nhxxps://evil[.]example\n" + "Jane.Doe+x@gmail.com\n" +
				"+49 1512 3456789\nDE89 3704 0044 0532 0130 00\n*.wild.example\n" +
				".dotted.example\n203.0.113.7\nhttp://203.0.113.7/x\n203.0.113.0/24\n" + "0151 23456789\nno\n",
			format: Plain, malformed: 2, skipped: 3, want: []string{
				"domain bad.example", "domain docs.example page", "domain dotted.example", "domain evil.example",
				"domain phish.example",
				"domain wild.example", "email janedoe@gmail.com", "iban DE89370400440532013000", "phone +4915123456789",
			},
		},
		"plain with a country": {
			list: "0151 23456789\n", options: Options{Country: "DE"}, format: Plain,
			want: []string{"phone +4915123456789"},
		},
		"ad blocker": {
			list: "[Adblock Plus 2.0]\n! comment\n||ads.example^\n||third.example^$third-party\n" +
				"||part.example/path^\n@@||good.example^\n||wild*.example^\n",
			format: Plain, want: []string{"domain ads.example", "domain third.example"}, malformed: 2, skipped: 1,
		},
		"csv with a header": {
			list: "id,Domain,threat,note\n1,bad.example,phishing,\"a, b\"\n" +
				"2,\"worse.example\",malware_download,\"say \"\"hi\"\"\"\n3,,phishing,\n",
			format: CSV, want: []string{"domain bad.example phishing", "domain worse.example malware"}, malformed: 1,
		},
		"csv with a header in a comment": {
			list: "################\n# id,dateadded,url,url_status,threat\n" +
				"\"1\",\"2031-01-01\",\"https://bad.example/x.exe\",\"online\",\"malware_download\"\n" +
				"\"2\",\"2031-01-01\",\"http://203.0.113.9/x\",\"online\",\"malware_download\"\n",
			format: CSV, want: []string{"domain bad.example page malware"}, skipped: 1,
		},
		"csv without a header": {list: "1,google.com\n2,example.org\n", format: CSV,
			want: []string{"domain example.org", "domain google.com"}},
		"csv, column by name": {list: "seen;domain;mail\n1;a.example;x@b.example\n", options: Options{Column: "mail"},
			format: CSV, want: []string{"email x@b.example"}},
		"csv, column by number": {list: "a.example|b.example\n", options: Options{Column: "2", Format: CSV},
			format: CSV, want: []string{"domain b.example"}},
		"csv, a stray quote": {list: "domain,note\na.example,\"never closed\nb.example,x\n", format: CSV,
			want: []string{"domain a.example", "domain b.example"}},
		"csv of one column": {list: "domain\na.example\n", format: CSV, want: []string{"domain a.example"}},
		"json strings": {list: `["a.example", "b.example"]`, format: JSON,
			want: []string{"domain a.example", "domain b.example"}},
		"json objects": {
			list: `[{"domain": "a.example", "category": "Phishing"}, {"url": "https://b.example/login",
				"tags": ["x", "stealer"]}, {"none": 1}]`,
			format: JSON, want: []string{"domain a.example phishing", "domain b.example page malware"},
		},
		"json with capital letters": {
			list: `[{"Domain": "a.example", "Tags": ["Stealer"]}, {"URL": "https://b.example/",
				"Threat": "Phishing"}]`,
			format: JSON,
			want:   []string{"domain a.example malware", "domain b.example phishing"},
		},
		"json, member by name with capital letters": {
			list:    `[{"DomainAddress": "a.example"}, {"DomainAddress": "b.example"}]`,
			options: Options{Column: "domainAddress"}, format: JSON,
			want: []string{"domain a.example", "domain b.example"},
		},
		"json lines": {
			list: "{\"value\": \"a.example\"}\n{\"value\": \"+4915123456789\"}\n", format: JSON,
			want: []string{"domain a.example", "phone +4915123456789"},
		},
		"json with several lists": {
			list: `{"version": 2, "blacklist": ["a.example"], "whitelist": ["good.example"]}`, format: JSON,
			want: []string{"domain a.example"},
		},
		"json, member by name": {
			list: `{"blacklist": ["a.example"], "whitelist": ["good.example"]}`, options: Options{Column: "whitelist"},
			format: JSON, want: []string{"domain good.example"},
		},
		"misp": {
			list: `{"Event": {"info": "x", "Attribute": [
				{"type": "domain", "value": "a.example", "category": "Network activity", "to_ids": true},
				{"type": "domain", "value": "seen.example", "to_ids": false}, {"type": "domain",
					"value": "gone.example", "deleted": true},
				{"type": "domain|ip", "value": "b.example|203.0.113.7", "to_ids": true}, {"type": "md5", "value": "00"},
				{"type": "hostname", "value": "no", "to_ids": true}],
				"Object": [{"name": "person", "Attribute": [{"type": "phone-number", "value": "+4915123456789",
					"category": "Financial fraud", "to_ids": true,
				"Tag": [{"name": "tlp:green"}]}, {"type": "iban", "value": "DE89370400440532013000", "to_ids": true},
				{"type": "email-src", "value": "x@c.example", "to_ids": true}]}]}}`,
			format: MISP, malformed: 1, skipped: 2,
			want: []string{"domain a.example", "domain b.example", "email x@c.example", "iban DE89370400440532013000",
				"phone +4915123456789 scam"},
		},
		"stix": {
			list: `{"type": "bundle", "id": "bundle--1", "objects": [
				{"type": "indicator", "spec_version": "2.1", "pattern_type": "stix",
					"pattern": "[domain-name:value = 'a.example']", "indicator_types": ["malicious-activity"]},
				{"type": "indicator", "pattern_type": "stix",
					"pattern": "[url:value = 'https://b.example/login'] OR [email-addr:value='x@c.example']",
					"labels": ["phishing"]},
				{"type": "indicator", "pattern_type": "stix",
					"pattern": "[domain-name:value IN ('d.example', 'e.example')]"},
				{"type": "indicator", "pattern_type": "stix",
					"pattern": "[domain-name:value = 'f.example' AND url:value = 'https://f.example']"},
				{"type": "indicator", "pattern_type": "stix", "pattern": "[file:hashes.MD5 = '00']"},
				{"type": "indicator", "pattern_type": "stix", "pattern": "[domain-name:value != 'g.example']"},
				{"type": "indicator", "pattern_type": "stix",
					"pattern": "[file:hashes.'SHA-256' = '00' AND file:size > 7]"},
				{"type": "indicator", "pattern_type": "stix", "pattern": "[ipv4-addr:value ISSUBSET '203.0.113.0/24']"},
				{"type": "indicator", "pattern_type": "stix", "pattern": "[url:value = 'http://203.0.113.7/x']"},
				{"type": "indicator", "pattern_type": "stix", "pattern": "bad.example"},
				{"type": "indicator", "pattern_type": "stix"},
				{"type": "indicator", "pattern_type": "yara", "pattern": "rule x {}"},
				{"type": "indicator", "pattern_type": "stix", "pattern": "[domain-name:value = 'old.example']",
					"valid_until": "2030-01-01T00:00:00Z"},
				{"type": "indicator", "pattern_type": "stix", "pattern": "[domain-name:value = 'back.example']",
					"revoked": true},
				{"type": "domain-name", "value": "observed.example"}]}`, format: STIX, malformed: 2, skipped: 9,
			want: []string{"domain a.example malware", "domain b.example page phishing", "domain d.example",
				"domain e.example", "email x@c.example phishing"},
		},
		"a byte order mark": {list: "\ufeffa.example\n", format: Plain, want: []string{"domain a.example"}},
		"CRLF line ends": {list: "a.example\r\nb.example\r\n", format: Plain,
			want: []string{"domain a.example", "domain b.example"}},
		"an empty list": {list: "", format: Plain, want: []string{}},
		"an error page": {list: "<html>\n<body>Not found</body>\n</html>\n", format: Plain, want: []string{},
			malformed: 3},
	}, func(t *testing.T, tt testCase) {
		for packed, in := range map[string]io.Reader{"": strings.NewReader(tt.list), " packed": zipped(t, tt.list)} {
			got, report, err := read(t, in, tt.options)
			expect.NoError(t, err)
			expect.NoDiff(t, fmt.Sprintf("entries%s, with examples %+v", packed, report.Examples), tt.want, got)
			expect.That(t, report.Format == tt.format && report.Malformed == tt.malformed &&
				report.Skipped == tt.skipped && report.Entries == int64(len(tt.want)) &&
				report.Items == report.Entries+report.Malformed+report.Skipped,
				"report%s %+v, want format %s, %d malformed, %d skipped", packed, report, tt.format, tt.malformed,
				tt.skipped)
		}
	})
}

func zipped(t testing.TB, text string) io.Reader {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	expect.Value(z.Write([]byte(text)))(t)
	expect.NoError(t, z.Close())
	return &b
}

// A report has the first malformed lines, shortened, whatever their number and the order in which workers finish.
func TestMalformedExamples(t *testing.T) {
	t.Parallel()
	var list strings.Builder
	for i := range 20_000 {
		switch {
		case i%1000 == 998:
			fmt.Fprintf(&list, "not an entity, number %d\n", i)
		case i == 4:
			list.WriteString(strings.Repeat("x", maxLine+10) + "\n")
		default:
			fmt.Fprintf(&list, "n%d.example\n", i)
		}
	}
	_, report, err := read(t, strings.NewReader(list.String()), Options{Format: Plain})
	expect.NoError(t, err)
	lines := []int64{}
	for _, m := range report.Examples {
		lines = append(lines, m.Line)
		expect.That(t, len(m.Text) <= maxExampleText+3 && m.Reason != "", "example %+v", m)
	}
	expect.NoDiff(t, "lines of examples", []int64{5, 999, 1999, 2999, 3999}, lines)
	expect.That(t, report.Malformed == 21 && report.Entries == 19_979, "%+v", report)
	expect.That(t, report.Examples[0].Reason == tooLong, "the long line: %+v, want %q", report.Examples[0], tooLong)
}

// A truncated or unreadable list is an error.
func TestTruncatedList(t *testing.T) {
	t.Parallel()
	packed := expect.Value(io.ReadAll(zipped(t, strings.Repeat("a.example\n", 1000))))(t)
	for name, in := range map[string]io.Reader{
		"gzip":    bytes.NewReader(packed[:len(packed)-5]),
		"json":    strings.NewReader(`["a.example", "b.exa`),
		"reading": io.MultiReader(strings.NewReader("a.example\n"), brokenReader{}),
	} {
		_, _, err := read(t, in, Options{})
		expect.That(t, err != nil, "%s: reading a truncated list succeeded", name)
	}
	small := &limitedReader{in: strings.NewReader("12345"), left: 4}
	expect.Error(t, "exceeding the limit", expect.ErrorOf(io.ReadAll(small)), errTooLarge)
	for name, o := range map[string]Options{"format": {Format: "xml"}, "column": {Format: CSV, Column: "none"},
		"column number": {Format: CSV, Column: "3"}, "column zero": {Format: CSV, Column: "0"},
		"column of lines": {Format: Plain, Column: "a"}} {
		_, _, err := read(t, strings.NewReader("a,b\nx.example,y\n"), o)
		expect.That(t, err != nil, "an invalid %s was accepted", name)
	}
	_, _, err := read(t, strings.NewReader("1,2\n3,4\n"), Options{Format: CSV})
	expect.That(t, errors.Is(err, ErrNoColumn), "without an entity column: %v, want %v", err, ErrNoColumn)
}

// Whatever a list contains, little of it is in memory at a time.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 2<<20)
	for _, format := range []Format{JSON, MISP, STIX} {
		for list, want := range map[string]string{`["` + long: "longer than 1 MiB", `{"` + long: "longer than 1 MiB",
			strings.Repeat(`{"a":[`, 50): "nested more than 32 deep"} {
			_, _, err := read(t, strings.NewReader(list), Options{Format: format})
			expect.ErrorText(t, string(format), err, want)
		}
	}
	list := `{"long": "` + long[:100_000] + `"`
	for i := range 40 {
		list += fmt.Sprintf(`, "%d%s": "%s", "%d": ["%[2]s"]`, i, long[:9000], long[:9000], i)
	}
	expect.NoError(t, walk(bufio.NewReader(strings.NewReader(list+"}")), func(string, string) error { return nil },
		func(o object) error {
			bytes := len(fmt.Sprint(o))
			expect.That(t, len(o) > 20 && bytes < 300_000, "%d members, %d bytes", len(o), bytes)
			return nil
		}))
	raw := make(chan chunk, 100)
	expect.NoError(t, sendChunks(t.Context(), raw, func(take func(item) error) error {
		for range 100 {
			_ = take(item{text: long[:60_000]})
		}
		return nil
	}))
	expect.That(t, len(raw) > 4 && len((<-raw).items) < 40, "6 MB in %d chunks", len(raw))
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("connection lost") }

// A reader that is closed early, or whose context ends, leaves no goroutine behind. TestMain checks this.
func TestCloseEarly(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	r := expect.Value(Open(ctx, strings.NewReader(strings.Repeat("a.example\n", 200_000)), Options{}))(t)
	expect.Value(r.Next())(t)
	cancel()
	var err error
	for err == nil {
		_, err = r.Next()
	}
	expect.Error(t, "after the end of its context", err, context.Canceled)
	r.Close()

	// The context may also end after everything was read, while workers still drop chunks.
	late := &Reader{ctx: expect.Ended(t), out: make(chan chunk)}
	close(late.out)
	expect.Error(t, "with dropped chunks", expect.ErrorOf(late.Next()), context.Canceled)
}

func TestCategory(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"phishing": "phishing", " Phishing Page ": "phishing", "malware_download": "malware", "botnet_cc": "malware",
		"Crypto Scam": "investment_scam", "Financial fraud": "scam", "investment_scam": "investment_scam",
		"disposable": "disposable", "unknown": "", "": "",
	} {
		expect.Equal(t, "Category of "+text, Category(text), want)
	}
}

// Every entry is normalised: entity.Parse returns its value unchanged.
func FuzzRead(f *testing.F) {
	for _, list := range []string{
		"0.0.0.0 bad.example\n", "bad.example\n||x^\n", "domain,threat\na.example,x\n", `[{"domain": "a.example"}]`,
		`{"Event":{"Attribute":[{"type":"domain","value":"a.example"}]}}`,
		`{"type":"bundle","objects":[{"type":"indicator","pattern":"[domain-name:value = 'a.example']"}]}`, "\x1f\x8b",
		"\"\n", "a|b\n", "[[[", "'\\",
	} {
		for i := range 7 {
			f.Add([]byte(list), i)
		}
	}
	formats := []Format{Auto, Hosts, Plain, CSV, JSON, MISP, STIX}
	f.Fuzz(func(t *testing.T, list []byte, format int) {
		r, err := Open(t.Context(), bytes.NewReader(list), Options{Format: formats[uint(format)%7]})
		if err != nil {
			return
		}
		defer r.Close()
		for {
			entries, err := r.Next()
			if err != nil {
				return
			}
			for _, e := range entries {
				expect.Equal(t, "entry", expect.Value(entity.Parse(e.Type, e.Value, ""))(t).Value, e.Value)
			}
		}
	})
}
