package train

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"assay/host/entity"
	"assay/host/measure/eval"
	"assay/plugins/internal/suffix"
	"assay/registry/fault"
	"assay/sdk"
)

// Domain is a labelled domain.
type Domain struct {
	Host      suffix.Host
	Malicious bool
	Source    string
	Category  string
	Site      string  // the registrable domain, or the site on a shared host; splits never separate its domains
	Hosted    bool    // the suffix is a shared host; trainers may narrow the definition
	Age       float64 // years from the report until RowsUntil; negative if the row has no date
	TestOnly  bool    // never trained on
	Weight    float32 // in training
}

// Publisher returns the first word of a source's name. Lists by one publisher share it, and copy from each other.
func Publisher(source string) string {
	first, _, _ := strings.Cut(source, "_")
	return first
}

// ReadRows reads the labelled rows of type t from a file of JSON lines, plain or gzipped. Rows without a type count as
// t. A malformed line is an error.
func ReadRows(path string, t entity.Type) ([]eval.Row, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading labelled rows: %w", err)
	}
	defer f.Close()
	all, faults, err := eval.Read(f, t)
	if err == nil && len(faults) > 0 {
		err = faults[0]
	}
	return slices.DeleteFunc(all, func(r eval.Row) bool { return r.Type != t }), fault.Wrap(err, "reading %s", path)
}

// RowsUntil is the date on which the labelled rows end.
const RowsUntil = "2026-05-01"

// Age returns the years from a row's date, a year, a month or a day, until another, or -1 if either is missing.
func Age(date, until string) float64 {
	from, to := day(date), day(until)
	if from.IsZero() || to.IsZero() {
		return -1
	}
	return to.Sub(from).Hours() / 24 / 365.25
}

func day(date string) time.Time {
	for _, layout := range []string{time.DateOnly, "2006-01", "2006"} {
		if at, err := time.Parse(layout, date); err == nil {
			return at
		}
	}
	return time.Time{}
}

// ReadDomains reads the labelled domains of a file. It skips and counts values that are not valid domains or are
// themselves public suffixes.
func ReadDomains(path string) (domains []*Domain, skipped int, err error) {
	rows, err := ReadRows(path, entity.Domain)
	if err != nil {
		return nil, 0, err
	}
	for _, row := range rows {
		if row.Source == "" {
			return nil, 0, fmt.Errorf("reading %s: %s: source is missing", path, row.Value)
		}
		d, err := NewDomain(entity.Domain, row.Value)
		if err != nil || d == nil {
			skipped++
			continue
		}
		d.Malicious, d.Source, d.Category, d.Age = row.Malicious, row.Source, row.Category, Age(row.Date, RowsUntil)
		domains = append(domains, d)
	}
	return domains, skipped, nil
}

// NewDomain reads a domain, or the domain of an email address, as a layer does. It returns nil for a public suffix. Its
// error means that the value is invalid.
func NewDomain(kind entity.Type, value string) (*Domain, error) {
	parsed, err := entity.Parse(kind, value, "")
	if err != nil {
		return nil, err
	}
	d := new(Domain)
	var ok bool
	sdk.Run(func(c *sdk.Check) sdk.Outcome {
		d.Host, ok = suffix.Read(c)
		return sdk.Scored
	}, sdk.Facts(parsed.Facts))
	if !ok {
		return nil, nil
	}
	d.Site, d.Hosted = d.Host.Name+"."+d.Host.Suffix, d.Host.Private
	return d, nil
}

// ReadSites reads files and keeps the first domain of each site. It is an error if all domains have the same label.
func ReadSites(paths []string, progress Progress) ([]*Domain, error) {
	var domains []*Domain
	seen, labels := map[string]bool{}, map[bool]int{}
	for _, path := range paths {
		all, skipped, err := ReadDomains(path)
		if err != nil {
			return nil, err
		}
		for _, d := range all {
			if !seen[d.Site] {
				seen[d.Site] = true
				labels[d.Malicious]++
				domains = append(domains, d)
			}
		}
		progress("read %s: %d domains, %d skipped", filepath.Base(path), len(all), skipped)
	}
	if labels[true] == 0 || labels[false] == 0 {
		return nil, errors.New("rows of both labels are needed")
	}
	return domains, nil
}
