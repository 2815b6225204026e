package eval

import (
	"context"
	"fmt"

	"assay/host/check"
	"assay/host/entity"
)

// PluginReport is the result of [MeasurePlugin].
type PluginReport struct {
	Files    []string      `json:"files"`
	Plugin   string        `json:"plugin"` // name@version
	Lineup   LineupLine    `json:"lineup"`
	Replaced string        `json:"replaced,omitempty"` // the version in the lineup, whose place the plugin takes
	Lookups  bool          `json:"lookups"`            // see [Report]
	Rows     int           `json:"rows"`               // of types that the plugin scores
	Others   int           `json:"other_rows"`         // of other types; they are left out
	Skipped  int           `json:"skipped"`            // number of invalid lines
	Seconds  Number        `json:"seconds"`            // duration of scoring and fitting
	Types    []*PluginType `json:"types"`
	Warnings []string      `json:"warnings"`
}

// PluginType is the report on the rows of one type. No figure includes rows with invalid values, or on which a layer
// failed.
type PluginType struct {
	Type      entity.Type   `json:"type"`
	N         int           `json:"n"`
	Positives int           `json:"positives"`
	Failed    int           `json:"lost"`            // rows on which the plugin failed
	Malicious Rate          `json:"spoke_malicious"` // malicious rows with a score other than 0
	Benign    Rate          `json:"spoke_benign"`    // benign rows with a score other than 0
	Signals   []SignalRates `json:"signals"`         // that were emitted, the most frequent for fraud first
	Alone     Figures       `json:"alone"`           // of the plugin's own score
	Without   Figures       `json:"without"`         // of the lineup without the plugin, out of fold
	With      Figures       `json:"with"`            // of the lineup with the plugin, out of fold
	AUCGain   Gain          `json:"auc_gain"`        // of With over Without
	Recall1   Gain          `json:"recall_at_1pct_fpr_gain"`
	Weight    float64       `json:"weight"`               // of the plugin, fitted to all rows in the lineup as it is
	Folds     int           `json:"folds"`                // number of folds of the cross-validation
	ByLetters []string      `json:"by_letters,omitempty"` // see [FitType]
	Repeats   []Overlap     `json:"repeats"`              // the other layers, the most correlated first
	Sources   []PluginGroup `json:"sources"`
	Suffixes  []PluginGroup `json:"suffixes"` // with at least 50 rows of the label
	Errors    Examples      `json:"errors"`

	curves struct{ alone, without, with *Curve }
}

// Gain is the difference between two figures of the same rows.
type Gain struct {
	Value    Number   `json:"value"`
	Interval Interval `json:"interval"`
	Noise    bool     `json:"within_noise"` // the interval contains 0, or there are too few rows for one
}

// SignalRates says on which rows a signal was emitted.
type SignalRates struct {
	Code      string `json:"code"`
	Malicious Rate   `json:"malicious"`
	Benign    Rate   `json:"benign"`
}

// Overlap compares the plugin with another layer. The correlations are Pearson's of the two layers' contributions; the
// weights do not change them.
type Overlap struct {
	Layer       string `json:"layer"`
	Correlation Number `json:"correlation"` // over all rows
	// within the rows of one label: two good layers correlate over all rows only because both are right
	SameLabel Number `json:"correlation_same_label"`
	Also      Rate   `json:"also_spoke"` // rows that the plugin scores, and the other layer too
}

// PluginGroup has the figures of the rows with one label and the same source or suffix.
type PluginGroup struct {
	Name      string `json:"name"`
	Malicious bool   `json:"malicious"`
	Spoke     Rate   `json:"spoke"` // rows that the plugin gives a score other than 0
	MeanScore Number `json:"mean_score"`
	// shares at or above the lineup's thresholds for 1% false positives overall, out of fold
	Without Number `json:"flagged_at_1pct_fpr_without"`
	With    Number `json:"flagged_at_1pct_fpr_with"`
}

// Examples are the worst errors of the plugin: benign rows with a score above 0, and malicious rows without one. Of
// rows with equal scores, they are those that the lineup gets most wrong.
type Examples struct {
	Benign    []Example `json:"benign_highest"`
	Malicious []Example `json:"malicious_lowest"`
}

// Example is a row that the plugin got wrong, and what it did in the call.
type Example struct {
	Value  string `json:"value"`
	Source string `json:"source,omitempty"`
	Score  int    `json:"score"`
	Lineup int    `json:"lineup_score"` // of the lineup with the plugin, out of fold
	Called

	row Row
}

// Called is what a plugin did in a call.
type Called struct {
	Failure string            `json:"failure,omitempty"`
	Signals []check.Signal    `json:"signals"`
	Facts   map[string]string `json:"facts"`  // that it read
	Absent  []string          `json:"absent"` // facts that it asked for and that were not known
	Log     []string          `json:"log"`
}

// Failures returns the number of rows on which the plugin failed.
func (r *PluginReport) Failures() int {
	n := 0
	for _, t := range r.Types {
		n += t.Failed
	}
	return n
}

// Explain calls the plugin again for its errors, to add to the report what it did.
func (r *PluginReport) Explain(ctx context.Context, call func(context.Context, Row) (Called, error)) error {
	for _, t := range r.Types {
		for _, list := range [][]Example{t.Errors.Benign, t.Errors.Malicious} {
			for i := range list {
				var err error
				if list[i].Called, err = call(ctx, list[i].row); err != nil {
					return fmt.Errorf("explaining %s: %w", t.Type, err)
				}
			}
		}
	}
	return nil
}
