package eval

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"

	"assay/host/check"
	"assay/host/entity"
)

// Report is the result of [Measure].
type Report struct {
	Files  []string   `json:"files"`
	Lineup LineupLine `json:"lineup"`
	// whether current facts were looked up; if not, only the values were scored
	Lookups  bool          `json:"lookups"`
	Rows     int           `json:"rows"`
	Skipped  int           `json:"skipped"` // number of invalid lines
	Seconds  Number        `json:"seconds"` // duration of scoring
	Types    []*TypeReport `json:"types"`   // types with rows, in the order of entity.Types
	Warnings []string      `json:"warnings"`

	model Model
}

// LineupLine identifies the evaluated lineup.
type LineupLine struct {
	Revision int64        `json:"revision"` // 0 if the lineup is not active
	Bias     check.ByType `json:"bias"`
	Bands    check.Bands  `json:"bands"`
}

// MarshalJSON encodes a report of several types with their figures in "types". The figures of a single type are at the
// top level, where users with files of one type expect "auc".
func (r *Report) MarshalJSON() ([]byte, error) {
	type plain Report
	if len(r.Types) != 1 {
		return encode((*plain)(r))
	}
	return encode(struct {
		*plain
		Types *struct{} `json:"types,omitempty"` // hides the field of plain
		*TypeReport
	}{plain: (*plain)(r), TypeReport: r.Types[0]})
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return b.Bytes(), err
}

// TypeReport is the report on the rows of one type.
type TypeReport struct {
	Type      entity.Type `json:"type"`
	N         int         `json:"n"` // scored rows
	Positives int         `json:"positives"`
	Invalid   Invalid     `json:"refused"`
	Unknown   int         `json:"unknown"` // rows for which a fact source did not respond in time
	Figures
	// Unrounded has the figures of the fused log-odds before they are rounded to a score.
	Unrounded   Figures       `json:"unrounded"`
	Calibration Calibration   `json:"calibration"`
	Layers      []LayerReport `json:"layers"`
	Sources     []Group       `json:"sources"`
	Categories  []Group       `json:"categories"`
	// benign rows flagged, of each suffix with at least 50 of them, and of the sites of rank 1 to 1,000
	Suffixes  []FalsePositives `json:"suffixes"`
	TopSites  []FalsePositives `json:"top_sites"`
	Threats   *Threats         `json:"threats,omitempty"`  // nil without flagged rows of a known category
	HeldOut   map[string]int   `json:"held_out,omitempty"` // rows with a held-out score, by layer
	Errors    Errors           `json:"errors"`
	Histogram Histogram        `json:"histogram"`

	curve *Curve
}

// Invalid counts the rows with invalid values, which no layer scores.
type Invalid struct {
	Benign    int      `json:"benign"`
	Malicious int      `json:"malicious"`
	Reasons   []string `json:"reasons,omitempty"` // of the first rows
}

// Figures measure how well a score separates malicious rows from benign ones.
type Figures struct {
	AUC         Number   `json:"auc"`
	AUCInterval Interval `json:"auc_interval"`
	Recall1     Number   `json:"recall_at_1pct_fpr"`
	Interval1   Interval `json:"recall_at_1pct_fpr_interval,omitzero"`
	Threshold1  Number   `json:"threshold_at_1pct_fpr"` // null if no threshold meets the limit
	FPR1        Number   `json:"fpr_at_1pct_threshold"` // the share of benign rows at the threshold: 1% or less
	Recall01    Number   `json:"recall_at_01pct_fpr"`
	Interval01  Interval `json:"recall_at_01pct_fpr_interval,omitzero"`
	Threshold01 Number   `json:"threshold_at_01pct_fpr"`
	FPR01       Number   `json:"fpr_at_01pct_threshold"`
	Bands       *Bands   `json:"bands,omitempty"`
}

// Bands contains the confusion matrix of each band.
type Bands struct {
	Allow  Band `json:"allow"`
	Review Band `json:"review"`
	Block  Band `json:"block"`
}

// Band counts the rows in a band, and has the confusion matrix if rows in this band and above are flagged.
type Band struct {
	From           int      `json:"from"` // lowest score
	To             int      `json:"to"`   // highest score
	Benign         int      `json:"benign"`
	Malicious      int      `json:"malicious"`
	TruePositives  int      `json:"tp"` // malicious rows in this band or above
	FalsePositives int      `json:"fp"` // benign rows in this band or above
	FalseNegatives int      `json:"fn"`
	TrueNegatives  int      `json:"tn"`
	Recall         Number   `json:"recall"` // tp / malicious rows
	RecallInterval Interval `json:"recall_interval"`
	FPR            Number   `json:"fpr"` // fp / benign rows
	FPRInterval    Interval `json:"fpr_interval"`
}

// LayerReport is the report on one layer.
type LayerReport struct {
	Name      string         `json:"name"`
	Version   string         `json:"version"`
	Weight    float64        `json:"weight"`
	Scored    int            `json:"spoke"` // rows with a score other than 0
	Abstained int            `json:"abstained"`
	Failures  map[string]int `json:"lost,omitempty"`        // rows without a result, by reason
	FailedOn  []string       `json:"lost_values,omitempty"` // values of the first of these rows
	Figures                  // of the layer's own score
	Without   Figures        `json:"left_out"` // of the fused score without the layer
}

// Group has the figures of the rows with one label and the same source or category.
type Group struct {
	Name      string `json:"name"`
	Malicious bool   `json:"malicious"`
	N         int    `json:"n"`
	// share at or above the threshold for 1% false positives overall: the recall, or the false positive rate
	AtOnePct  Number   `json:"flagged_at_1pct_fpr"`
	Interval  Interval `json:"flagged_at_1pct_fpr_interval"`
	Review    Number   `json:"review_or_block"` // share reviewed or blocked
	Block     Number   `json:"block"`           // share blocked
	MeanScore Number   `json:"mean_score"`
}

// Errors are the lineup's worst errors: benign rows with signals against them, and malicious rows that are not blocked.
type Errors struct {
	Benign    []Mistake `json:"benign_highest"`
	Malicious []Mistake `json:"malicious_lowest"`
}

// Mistake is a row with a wrong score, and the results of all layers.
type Mistake struct {
	Value    string          `json:"value"`
	Source   string          `json:"source,omitempty"`
	Category string          `json:"category,omitempty"`
	Country  string          `json:"country,omitempty"`
	Score    int             `json:"score"`
	Verdict  check.Verdict   `json:"verdict"`
	Threat   string          `json:"dominant_threat,omitempty"`
	Layers   []check.Outcome `json:"layers"`

	row Row
}

// Histogram counts rows by score, 0 to 100.
type Histogram struct {
	Benign    [101]int `json:"benign"`
	Malicious [101]int `json:"malicious"`
}

// Number is a figure that may be undefined. NaN and infinities are null in JSON and a dash in text. JSON has six
// decimals.
type Number float64

// Defined reports whether n is finite.
func (n Number) Defined() bool { return !math.IsNaN(float64(n)) && !math.IsInf(float64(n), 0) }

// MarshalJSON encodes a number or null.
func (n Number) MarshalJSON() ([]byte, error) {
	if !n.Defined() {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, math.Round(float64(n)*1e6)/1e6, 'f', -1, 64), nil
}

// UnmarshalJSON decodes a number or null.
func (n *Number) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*n = Number(math.NaN())
		return nil
	}
	return json.Unmarshal(data, (*float64)(n))
}

// Interval is a 95% confidence interval: low and high.
type Interval [2]Number

// undefined is the interval of a figure that cannot be estimated.
var undefined = Interval{Number(math.NaN()), Number(math.NaN())}

// Failures returns the number of times that a layer returned no result, even on the second attempt.
func (r *Report) Failures() int {
	n := 0
	for _, t := range r.Types {
		for _, l := range t.Layers {
			for _, count := range l.Failures {
				n += count
			}
		}
	}
	return n
}
