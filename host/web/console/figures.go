package console

import (
	"regexp"
	"strconv"
	"strings"
)

// figure is a measured result on the landing page.
type figure struct {
	Number, Text string
	Measured     string // the day, as in the results
}

var (
	resultDay   = regexp.MustCompile(`(\d{4}-\d\d-\d\d) \d\d:\d\d UTC, revision`)
	answerTimes = regexp.MustCompile(`answered\s+within\s+\d+\s+ms\s+\(p50\)\s+and\s+(\d+)\s+ms\s+\(p99\)`)
	activations = regexp.MustCompile(`: (\d+)\s+activations`)
	records     = regexp.MustCompile(`(\d+) records`)
	differences = regexp.MustCompile(`\*\*(\d+) differences?\.\*\*`)
	faultRow    = regexp.MustCompile(`(?m)^\| [^|]+ \| (\d+) \|`)
	lostRow     = regexp.MustCompile(`\| lost \|[^\n]*\n[^\n]*\n\| (\d+) \|`)
)

// figures reads the landing page's figures from docs/results.md. It leaves out those that the document lacks.
func figures(results string) []figure {
	var list []figure
	add := func(number, unit, text, section string) {
		if day := resultDay.FindStringSubmatch(section); number != "" && text != "" && day != nil {
			list = append(list, figure{number + unit, text, day[1]})
		}
	}
	first := func(pattern *regexp.Regexp, section string) string {
		if found := pattern.FindStringSubmatch(section); found != nil {
			n, _ := strconv.Atoi(found[1]) // digits
			return count(n)
		}
		return ""
	}
	section := func(title string) string {
		_, after, _ := strings.Cut(results, "\n## "+title+"\n")
		text, _, _ := strings.Cut(after, "\n## ")
		return text
	}
	s := section("Activations")
	if n := first(activations, s); n != "" {
		add(first(answerTimes, s), " ms", "or less for 99 of 100 requests, while the weights changed "+n+" times", s)
	}
	s = section("Faults")
	faults := 0
	for _, row := range faultRow.FindAllStringSubmatch(s, -1) {
		n, _ := strconv.Atoi(row[1])
		faults += n
	}
	if n := first(records, s); n != "" {
		add(first(differences, s), " of "+n, "records differed from the answers after "+count(faults)+
			" faults, such as full disks and killed hosts", s)
	}
	s = section("Failover")
	add(first(lostRow, s), "", "checks lost when the database’s primary server was killed", s)
	return list
}
