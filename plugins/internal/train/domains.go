package train

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"assay/host/entity"
	"assay/host/measure/eval"
	"assay/plugins/internal/suffix"
	"assay/sdk"
)

// Domain is a labelled domain.
type Domain struct {
	Host      suffix.Host
	Malicious bool
	Source    string
	Category  string
	Family    string  // the label and publisher of Source, such as "bad phishing"
	Site      string  // the registrable domain, or the site on a shared host; splits never separate its domains
	Hosted    bool    // the suffix is a shared host; trainers may narrow the definition
	Target    bool    // from a target file, not from the pool
	Synthetic bool    // added for training; is never tested
	TestOnly  bool    // never trained on
	Weight    float32 // in training
}

// Label returns "bad" for malicious domains and "good" for benign ones.
func (d *Domain) Label() string {
	if d.Malicious {
		return "bad"
	}
	return "good"
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
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	rows := all[:0]
	for _, r := range all {
		if r.Type == t {
			rows = append(rows, r)
		}
	}
	return rows, nil
}

// ReadDomains reads the labelled domains of a file. It skips and counts values that are not valid domains or are
// themselves public suffixes.
func ReadDomains(path string, target bool) (domains []*Domain, skipped int, err error) {
	rows, err := ReadRows(path, entity.Domain)
	if err != nil {
		return nil, 0, err
	}
	for _, row := range rows {
		if row.Source == "" {
			return nil, 0, fmt.Errorf("reading %s: %s: source is missing", path, row.Value)
		}
		d, err := NewDomain(entity.Domain, row.Value)
		if errors.As(err, new(*entity.InvalidError)) {
			skipped++
			continue
		}
		if err != nil {
			return nil, 0, fmt.Errorf("reading %s: %s: %w", path, row.Value, err)
		}
		if d == nil {
			skipped++
			continue
		}
		d.Malicious, d.Source, d.Category, d.Target = row.Malicious, row.Source, row.Category, target
		d.Family = d.Label() + " " + Publisher(row.Source)
		domains = append(domains, d)
	}
	return domains, skipped, nil
}

// NewDomain reads a domain, or the domain of an email address, as a layer does. It returns nil for a public suffix.
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

// Domains reads o's files and keeps the first domain of each site. scores reports whether the layer scores a host; nil
// stands for all hosts. It is an error if all domains have the same label.
func (o Options) Domains(scores func(*suffix.Host) bool, progress Progress) ([]*Domain, error) {
	var domains []*Domain
	seen := map[string]bool{}
	labels := map[bool]int{}
	read := func(path string, target bool) error {
		all, skipped, err := ReadDomains(path, target)
		if err != nil {
			return err
		}
		n := 0
		for _, d := range all {
			if scores != nil && !scores(&d.Host) {
				skipped++
				continue
			}
			n++
			if !seen[d.Site] {
				seen[d.Site] = true
				labels[d.Malicious]++
				domains = append(domains, d)
			}
		}
		progress("read %s: %d domains, %d skipped", filepath.Base(path), n, skipped)
		return nil
	}
	for _, path := range o.Target {
		if err := read(path, true); err != nil {
			return nil, err
		}
	}
	for _, path := range o.Pool {
		if err := read(path, false); err != nil {
			return nil, err
		}
	}
	if labels[true] == 0 || labels[false] == 0 {
		return nil, errors.New("rows of both labels are needed")
	}
	progress("%d sites, %d of them bad", len(domains), labels[true])
	return domains, nil
}

// targetWeight is the training weight of a target domain, relative to the pool's average domain.
const targetWeight = 3

// Weigh sets the training weights of all domains except synthetic ones. It reweights the pool to the target's mix of
// sources, and to the target's share of shared hosts per label, so that large sources don't dominate.
func Weigh(domains []*Domain) {
	for _, d := range domains {
		if !d.Synthetic {
			d.Weight = 1
		}
	}
	type class struct {
		source            string
		malicious, hosted bool
	}
	for _, classOf := range []func(*Domain) class{
		func(d *Domain) class { return class{source: d.Source, malicious: d.Malicious} },
		func(d *Domain) class { return class{malicious: d.Malicious, hosted: d.Hosted} },
	} {
		target, pool := map[class]float64{}, map[class]float64{}
		var targetTotal, poolTotal float64
		for _, d := range domains {
			switch c, w := classOf(d), float64(d.Weight); {
			case d.Synthetic:
			case d.Target:
				target[c] += w
				targetTotal += w
			default:
				pool[c] += w
				poolTotal += w
			}
		}
		if targetTotal == 0 || poolTotal == 0 {
			break
		}
		for _, d := range domains {
			if c := classOf(d); !d.Target && !d.Synthetic {
				d.Weight *= float32(max(target[c], 0.5) / targetTotal / (pool[c] / poolTotal))
			}
		}
	}
	for _, d := range domains {
		if d.Target && !d.Synthetic {
			d.Weight = targetWeight
		}
	}
}
