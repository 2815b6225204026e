package eval

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"

	"assay/host/check"
	"assay/host/entity"
)

// Report is what a measurement found.
type Report struct {
	Files  []string   `json:"files"`
	Lineup LineupLine `json:"lineup"`
	// whether facts were looked up, as they are now; else values alone were judged
	Lookups  bool          `json:"lookups"`
	Rows     int           `json:"rows"`
	Skipped  int           `json:"skipped"` // lines that were no rows
	Seconds  Number        `json:"seconds"` // that scoring took
	Types    []*TypeReport `json:"types"`   // in the order of entity.Types, those with rows
	Warnings []string      `json:"warnings"`
}

// LineupLine is the lineup that was measured.
type LineupLine struct {
	Revision int64       `json:"revision"` // 0 for a document that is not in force
	Bias     float64     `json:"bias"`
	Bands    check.Bands `json:"bands"`
}

// MarshalJSON writes the report of a single type with that type's figures at the top, so that a reader of one file
// finds "auc" where it expects it; of several types, they stand in "types".
func (r *Report) MarshalJSON() ([]byte, error) {
	type plain Report
	if len(r.Types) != 1 {
		return encode((*plain)(r))
	}
	return encode(struct {
		*plain
		Types *struct{} `json:"types,omitempty"` // hides plain's
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

// TypeReport is the measurement of one type's rows.
type TypeReport struct {
	Type      entity.Type `json:"type"`
	N         int         `json:"n"` // scored rows
	Positives int         `json:"positives"`
	Refused   Refused     `json:"refused"`
	Unknown   int         `json:"unknown"` // rows for which a source of facts did not answer in time
	Figures
	// Unrounded is what the fused log-odds would give before they are rounded to a score: the difference is what
	// rounding costs.
	Unrounded   Figures       `json:"unrounded"`
	Calibration Calibration   `json:"calibration"`
	Layers      []LayerReport `json:"layers"`
	Sources     []Group       `json:"sources"`
	Categories  []Group       `json:"categories"`
	Errors      Errors        `json:"errors"`
	Histogram   Histogram     `json:"histogram"`

	curve *Curve
}

// Refused counts values that are refused as no such entity at all, before any layer sees them.
type Refused struct {
	Benign    int      `json:"benign"`
	Malicious int      `json:"malicious"`
	Reasons   []string `json:"reasons,omitempty"` // of the first few
}

// Figures are how well one score tells malicious rows from benign ones.
type Figures struct {
	AUC         Number   `json:"auc"`
	AUCInterval Interval `json:"auc_interval"`
	Recall1     Number   `json:"recall_at_1pct_fpr"`
	Interval1   Interval `json:"recall_at_1pct_fpr_interval,omitzero"`
	Threshold1  Number   `json:"threshold_at_1pct_fpr"` // null when no threshold will do
	FPR1        Number   `json:"fpr_at_1pct_threshold"` // what the threshold really calls malicious: 1% or less
	Recall01    Number   `json:"recall_at_01pct_fpr"`
	Interval01  Interval `json:"recall_at_01pct_fpr_interval,omitzero"`
	Threshold01 Number   `json:"threshold_at_01pct_fpr"`
	FPR01       Number   `json:"fpr_at_01pct_threshold"`
	Bands       *Bands   `json:"bands,omitempty"`
}

// Bands is the confusion at each band.
type Bands struct {
	Allow  Band `json:"allow"`
	Review Band `json:"review"`
	Block  Band `json:"block"`
}

// Band says how many rows fall into a band, and what calling everything from there on malicious would mean.
type Band struct {
	From           int      `json:"from"` // lowest score
	To             int      `json:"to"`   // highest score
	Benign         int      `json:"benign"`
	Malicious      int      `json:"malicious"`
	TruePositives  int      `json:"tp"` // malicious rows here or above
	FalsePositives int      `json:"fp"` // benign rows here or above
	FalseNegatives int      `json:"fn"`
	TrueNegatives  int      `json:"tn"`
	Recall         Number   `json:"recall"` // tp / malicious rows
	RecallInterval Interval `json:"recall_interval"`
	FPR            Number   `json:"fpr"` // fp / benign rows
	FPRInterval    Interval `json:"fpr_interval"`
}

// LayerReport is one layer's part.
type LayerReport struct {
	Name      string  `json:"name"`
	Version   string  `json:"version"`
	Weight    float64 `json:"weight"`
	Spoke     int     `json:"spoke"` // rows that it gave points to
	Abstained int     `json:"abstained"`
	// rows that it took longer for than a check allows, alone on the machine too
	OverBudget int            `json:"over_budget"`
	Lost       map[string]int `json:"lost,omitempty"`        // rows that it gave no answer for, by reason
	LostValues []string       `json:"lost_values,omitempty"` // the first few of them
	Figures                   // of its own score, alone
	LeftOut    Figures        `json:"left_out"` // of the fused score without it
}

// Group is the rows of one label from one source, or of one category.
type Group struct {
	Name      string `json:"name"`
	Malicious bool   `json:"malicious"`
	N         int    `json:"n"`
	// share at or above the threshold of 1% false positives overall: recall, or false positives
	AtOnePct  Number   `json:"flagged_at_1pct_fpr"`
	Interval  Interval `json:"flagged_at_1pct_fpr_interval"`
	Review    Number   `json:"review_or_block"` // share reviewed or blocked
	Block     Number   `json:"block"`           // share blocked
	MeanScore Number   `json:"mean_score"`
}

// Errors are the rows that the lineup is most wrong about: benign ones with anything said against them, malicious ones
// not blocked.
type Errors struct {
	Benign    []Mistake `json:"benign_highest"`
	Malicious []Mistake `json:"malicious_lowest"`
}

// Mistake is one row with what every layer said of it.
type Mistake struct {
	Value    string          `json:"value"`
	Source   string          `json:"source,omitempty"`
	Category string          `json:"category,omitempty"`
	Country  string          `json:"country,omitempty"`
	Score    int             `json:"score"`
	Verdict  check.Verdict   `json:"verdict"`
	Threat   string          `json:"dominant_threat,omitempty"`
	Layers   []check.Outcome `json:"layers"`
}

// Histogram counts rows by score, 0 to 100.
type Histogram struct {
	Benign    [101]int `json:"benign"`
	Malicious [101]int `json:"malicious"`
}

// Number is a figure that may be undefined, as NaN: null in JSON, a dash in text. JSON has it to six digits.
type Number float64

// Defined says whether there is such a figure.
func (n Number) Defined() bool { return !math.IsNaN(float64(n)) && !math.IsInf(float64(n), 0) }

// MarshalJSON writes a number or null.
func (n Number) MarshalJSON() ([]byte, error) {
	if !n.Defined() {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, math.Round(float64(n)*1e6)/1e6, 'f', -1, 64), nil
}

// UnmarshalJSON reads a number or null.
func (n *Number) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*n = Number(math.NaN())
		return nil
	}
	return json.Unmarshal(data, (*float64)(n))
}

// Interval is a 95% confidence interval: low and high.
type Interval [2]Number

// Lost is how often a layer gave no answer, even when asked again.
func (r *Report) Lost() int {
	n := 0
	for _, t := range r.Types {
		for _, l := range t.Layers {
			for _, times := range l.Lost {
				n += times
			}
		}
	}
	return n
}
