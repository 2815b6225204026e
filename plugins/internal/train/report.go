package train

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"assay/host/measure/eval"
)

// maxFPR is the false positive rate at which recall is measured.
const maxFPR = 0.01

// Scored is a tested domain with its score, in any unit. Higher scores are more suspicious.
type Scored struct {
	*Domain
	Score float64
}

// Quality is how well scores separate bad domains from good ones.
type Quality struct {
	AUC       float64
	Recall    float64 // at 1% false positives
	Threshold float64 // the lowest score with at most 1% false positives; +Inf if there is none
}

// Measure returns the quality of the scores.
func Measure(domains []Scored) Quality {
	scores, malicious := make([]float64, len(domains)), make([]bool, len(domains))
	for i, s := range domains {
		scores[i], malicious[i] = s.Score, s.Malicious
	}
	curve := eval.NewCurve(scores, malicious)
	auc, _ := curve.AUC()
	at := curve.At(maxFPR)
	if math.IsNaN(at.Threshold) {
		at.Threshold = math.Inf(1)
	}
	return Quality{auc, at.Recall, at.Threshold}
}

// WriteHeader writes the header of the lines that WriteQuality writes.
func WriteHeader(out io.Writer) {
	fmt.Fprintf(out, "%-22s %8s %8s  %s\n", "", "rows", "AUC", "recall at 1% false positives")
}

// WriteQuality writes a line with the quality of n domains' scores.
func WriteQuality(out io.Writer, name string, n int, q Quality) {
	fmt.Fprintf(out, "%-22s %8d %8.4f  %.3f\n", name, n, q.AUC, q.Recall)
}

// WriteSubsets writes the quality for all domains, for those under .com, and for those on shared hosts.
func WriteSubsets(out io.Writer, name string, domains []Scored) Quality {
	q := Measure(domains)
	WriteQuality(out, name, len(domains), q)
	for _, subset := range []struct {
		name     string
		excluded func(Scored) bool
	}{
		{"  .com only", func(s Scored) bool { return s.Host.Suffix != "com" }},
		{"  shared hosts only", func(s Scored) bool { return !s.Hosted }},
	} {
		some := slices.DeleteFunc(slices.Clone(domains), subset.excluded)
		WriteQuality(out, subset.name, len(some), Measure(some))
	}
	return q
}

// WriteTable writes the number of domains with each key, and the share of them with scores at or above threshold.
func WriteTable(out io.Writer, title string, domains []Scored, threshold float64, key func(*Domain) string) {
	n, above := map[string]int{}, map[string]int{}
	for _, s := range domains {
		k := key(s.Domain)
		n[k]++
		if s.Score >= threshold {
			above[k]++
		}
	}
	fmt.Fprintf(out, "\n%-52s %6s  %s\n", title, "rows", "share")
	for _, k := range slices.Sorted(maps.Keys(n)) {
		fmt.Fprintf(out, "  %-50s %6d  %.3f\n", k, n[k], float64(above[k])/float64(n[k]))
	}
}

// BySource is a key of WriteTable: label, source and category.
func BySource(d *Domain) string {
	return strings.TrimSpace(d.Label() + " " + d.Source + " " + d.Category)
}
