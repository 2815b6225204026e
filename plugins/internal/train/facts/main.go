// Command facts adds facts to labelled rows, so that layers that read lookups can be measured without looking anything
// up. It reads train_domains.jsonl, train_domains_pool.jsonl.gz, train_emails.jsonl and dns_meta_malicious.jsonl in a
// folder. The same rows give the same bytes:
//
//	go run ./plugins/internal/train/facts -rows FILE FOLDER
//	go run ./host eval --lineup registry/default_lineup.json --type domain FILE
//
// Domains get a registration date (rdap.*). A fraudulent domain gets its recorded date or, if it has none, that of
// another fraudulent domain, drawn by a hash of the name. Dates of honest domains are SIMULATED: drawn by a hash of the
// name from the ages of .fr domains in March 2014 as Afnic published them (French Domain Name Industry Report 2014,
// "What is the average age of a domain name under the .fr TLD?"). Names under shared hosts, which have no registration
// of their own, and under suffixes whose registry publishes no date, get none.
//
// Addresses get the lists that contain their mail domain (feed.*), built from the fraudulent rows of other sources.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"assay/host/entity"
	"assay/host/measure/eval"
	"assay/plugins/internal/train"
)

func main() { train.Exit(run(os.Args[1:], os.Stderr)) }

func run(args []string, stderr io.Writer) error {
	flags := flag.NewFlagSet("facts", flag.ContinueOnError)
	flags.SetOutput(stderr)
	out := flags.String("rows", "", "`file` for the rows with facts")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 || *out == "" {
		return errors.New("want -rows and one argument: the folder of labelled rows")
	}
	folder := flags.Arg(0)
	records, err := readRecords(filepath.Join(folder, "dns_meta_malicious.jsonl"))
	if err != nil {
		return err
	}
	lists := listing{}
	var domains, addresses []row
	for name, into := range map[string]*[]row{"train_domains.jsonl": &domains, "train_emails.jsonl": &addresses,
		"train_domains_pool.jsonl.gz": nil} {
		if err := train.EachLine(filepath.Join(folder, name), func(r *row) {
			lists.add(*r)
			if into != nil {
				*into = append(*into, *r)
			}
		}); err != nil {
			return err
		}
	}
	f, err := os.Create(*out)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	lines := json.NewEncoder(w)
	for _, r := range domains {
		r["facts"] = records.facts(r)
		err = errors.Join(err, lines.Encode(r))
	}
	for _, r := range addresses {
		r["facts"] = lists.facts(r)
		err = errors.Join(err, lines.Encode(r))
	}
	return errors.Join(err, w.Flush(), f.Close())
}

// row is a labelled row with all of its fields.
type row map[string]any

func (r row) text(field string) string { s, _ := r[field].(string); return s }

func (r row) malicious() bool { return r["label"] == float64(1) }

// domain returns the parsed domain or mail domain, and false if there is none.
func (r row) domain() (entity.Facts, bool) {
	value := r.text("value")
	e, err := entity.Parse(entity.Domain, value[strings.LastIndexByte(value, '@')+1:], "")
	return e.Facts, err == nil
}

// list returns the list that the row comes from. Addresses built from a listed domain have a prefix.
func (r row) list() string {
	source := r.text("source")
	return source[strings.IndexByte(source, ':')+1:]
}

// records are the registrations of fraudulent domains.
type records struct {
	ages    []int           // days from registration to the report, sorted
	byName  map[string]int  // the same, by domain
	silent  map[string]bool // top-level domains whose registries publish no date
	measure time.Time       // the day that ages count back from
}

func readRecords(name string) (records, error) {
	r := records{byName: map[string]int{}, silent: map[string]bool{}}
	err := train.EachLine(name, func(record *row) {
		domain := record.text("domain")
		if record.text("status") == "tld_unsupported" {
			r.silent[domain[strings.LastIndexByte(domain, '.')+1:]] = true
		}
		created, err := time.Parse(time.DateOnly, record.text("created"))
		if err != nil {
			return
		}
		reported, err := time.Parse(time.DateOnly, record.text("reported"))
		if err != nil || reported.Before(created) {
			return
		}
		days := int(reported.Sub(created) / (24 * time.Hour))
		r.ages, r.byName[domain] = append(r.ages, days), days
		if reported.After(r.measure) {
			r.measure = reported
		}
	})
	slices.Sort(r.ages)
	if err == nil && len(r.ages) == 0 {
		err = fmt.Errorf("reading %s: no record has a date", name)
	}
	return r, err
}

// facts returns the registration of a domain.
func (r records) facts(domain row) map[string]string {
	facts, ok := domain.domain()
	name := facts["domain.registrable"]
	if !ok || name == "" || facts["domain.suffix_kind"] != "icann" || r.silent[facts["domain.tld"]] {
		return map[string]string{}
	}
	days, recorded := r.byName[name]
	switch share := drawn(name); {
	case !domain.malicious():
		days = honestAge(share)
	case !recorded:
		days = r.ages[int(share*float64(len(r.ages)))]
	}
	return map[string]string{"rdap.found": "yes", "rdap.age_days": strconv.Itoa(days),
		"rdap.created": r.measure.AddDate(0, 0, -days).Format(time.DateOnly)}
}

// drawn returns a number from 0 to less than 1 that depends only on the name.
func drawn(name string) float64 { return float64(eval.Hash(name)>>11) / (1 << 53) }

// honestAges describes the ages of .fr domains in March 2014, an entry for each range of registration years: share is
// the part of all domains with an age below days.
var honestAges = [...]struct{ share, days float64 }{
	{.570, 3.2 * 365.25},  // 2011 to 2014
	{.917, 8.2 * 365.25},  // 2006 to 2010: 34.7%
	{.981, 13.2 * 365.25}, // 2001 to 2005: 6.4%
	{1, 19.2 * 365.25},    // 1995 to 2000: 1.8%, and 0.1% lost in rounding
}

// honestAge returns the age in days that share of the domains have not reached. It is linear within a range.
func honestAge(share float64) int {
	fromShare, fromDays := 0.0, 0.0
	for _, to := range honestAges {
		if share < to.share {
			return int(fromDays + (to.days-fromDays)*(share-fromShare)/(to.share-fromShare))
		}
		fromShare, fromDays = to.share, to.days
	}
	return int(fromDays)
}

// listing holds the sources that list each fraudulent domain.
type listing map[string][]string

func (l listing) add(r row) {
	if facts, ok := r.domain(); ok && r.malicious() {
		name := facts["domain.ascii"]
		if list := r.list(); !slices.Contains(l[name], list) {
			l[name] = append(l[name], list)
			slices.Sort(l[name])
		}
	}
}

// facts returns the lists that contain the mail domain of an address, or a domain above it, except the row's own list.
func (l listing) facts(address row) map[string]string {
	facts, ok := address.domain()
	for name := facts["domain.ascii"]; ok && strings.Contains(name, "."); name = name[strings.IndexByte(name, '.')+1:] {
		lists := slices.DeleteFunc(slices.Clone(l[name]), func(list string) bool { return list == address.list() })
		if len(lists) > 0 {
			return map[string]string{"feed.listed": strings.Join(lists[:min(3, len(lists))], ", "),
				"feed.lists": strconv.Itoa(len(lists)), "feed.match": "mail_domain"}
		}
		if name == facts["domain.registrable"] {
			break
		}
	}
	return map[string]string{}
}
