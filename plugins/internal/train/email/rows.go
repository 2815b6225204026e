package main

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"

	"assay/plugins/email/spelling"
)

// The labelled files, by what they hold.
const (
	addressFile = "train_emails.jsonl"
	targetFile  = "train_domains.jsonl"
	poolFile    = "train_domains_pool.jsonl.gz"
)

// disposable is the category of addresses at throw-away services.
const disposable = "disposable"

// line is a labelled line as its file gives it.
type line struct {
	Type     string `json:"type"`
	Value    string `json:"value"`
	Label    int    `json:"label"`
	Source   string `json:"source"`
	Category string `json:"category"`
}

// host returns the domain that a line is about.
func (l *line) host() string { return strings.ToLower(l.Value[strings.LastIndexByte(l.Value, '@')+1:]) }

// list names the list that a line was taken from; an address made up at a domain of a list has a prefix.
func (l *line) list() string { return l.Source[strings.IndexByte(l.Source, ':')+1:] }

// siteOf returns the registrable domain of host, or host itself where it has none.
func siteOf(host string) string {
	if site, err := publicsuffix.EffectiveTLDPlusOne(host); err == nil {
		return site
	}
	return host
}

// example is one labelled mail domain.
type example struct {
	key      uint64 // of the registrable domain: orders examples and parts them into folds
	domain   string
	site     string
	bad      bool
	mail     bool    // from a labelled address, not from a labelled site
	weight   float64 // in learning; 0 counts for nothing
	list     string
	category string
	features []spelling.Feature
}

func readAll(folder string) ([]example, error) {
	var rows []example
	for _, name := range []string{addressFile, targetFile, poolFile} {
		err := eachLine(filepath.Join(folder, name), func(l *line, _ []byte) error {
			if e, ok := exampleOf(l); ok {
				rows = append(rows, e)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return distinct(rows), nil
}

// eachLine calls do for every line of a file of JSON lines, gzipped when its name ends in .gz. raw is do's until it
// returns.
func eachLine(path string, do func(l *line, raw []byte) error) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("reading labelled lines: %w", err)
	}
	defer file.Close()
	text := io.Reader(file)
	if strings.HasSuffix(path, ".gz") {
		if text, err = gzip.NewReader(bufio.NewReader(file)); err != nil {
			return fmt.Errorf("unpacking %s: %w", filepath.Base(path), err)
		}
	}
	lines, n := bufio.NewScanner(text), 0
	for lines.Scan() {
		n++
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return fmt.Errorf("reading %s: line %d: %w", filepath.Base(path), n, err)
		}
		if err := do(&l, lines.Bytes()); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("reading %s: line %d: %w", filepath.Base(path), n+1, err)
	}
	return nil
}

func exampleOf(l *line) (e example, ok bool) {
	if l.Category == "typo_provider" || l.Category == "freemail_person" {
		return e, false // told by rules
	}
	host, mail := l.host(), l.Type == "email"
	suffix, _ := publicsuffix.PublicSuffix(host)
	d, ok := spelling.Of(host, suffix)
	if !ok {
		return e, false
	}
	if !mail {
		d.Left, host = "", d.Label+"."+d.Suffix // a site's host tells nothing of where mail is received
	}
	site := d.Label + "." + d.Suffix
	e = example{
		key: mix(site), domain: host, site: site, bad: l.Label == 1, mail: mail, list: l.list(), category: l.Category,
	}
	if e.weight = weightOf(&e); e.weight > 0 {
		e.features = d.Features(nil)
	}
	return e, true
}

// weightOf says how much an example counts. Throw-away domains are told from honest ones; reported sites count nothing,
// for what is common to both the lexical layer knows already, and it would be counted twice. Sites are no mail domains:
// they are many, and stand in for what honest addresses are missing.
func weightOf(e *example) float64 {
	switch {
	case e.bad && e.category != disposable:
		return 0
	case e.mail:
		return 1
	}
	return 0.02
}

// mix hashes a registrable domain: FNV-1a, finished so that near names land far apart.
func mix(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	return h ^ h>>33
}

// distinct orders rows by their key, so that training depends on no file's order, and keeps one row of each mail
// domain.
func distinct(rows []example) []example {
	slices.SortStableFunc(rows, func(a, b example) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.domain, b.domain), cmp.Compare(ones(a.bad), ones(b.bad)),
			cmp.Compare(b.weight, a.weight), cmp.Compare(ones(b.mail), ones(a.mail)))
	})
	return slices.CompactFunc(rows, func(a, b example) bool { return a.domain == b.domain && a.bad == b.bad })
}

func ones(is bool) int {
	if is {
		return 1
	}
	return 0
}
