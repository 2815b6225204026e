package decision

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/lineup/replay"
)

// Explanation says in plain words why a check got its score. The value is scored again, without recording or counting
// it.
type Explanation struct {
	Check
	Text []string `json:"text"` // the explanation, a paragraph each
	// DecidedBy is the result under the lineup that decided; null if it cannot be loaded. Today is the result under the
	// lineup in force. Both use the same facts.
	DecidedBy *Scoring `json:"decided_by"`
	Today     *Scoring `json:"today"`
	// FactsOfToday names the sources of facts that were looked up again and may have changed since the check.
	FactsOfToday []string `json:"facts_of_today"`
}

// Scoring is a score with its parts. Start and the points of all reasons add up to Total, apart from rounding. A total
// of 0 is a score of 50, and every 10 points double the odds of fraud.
type Scoring struct {
	Revision int64    `json:"revision"`
	Score    int      `json:"score"`
	Verdict  string   `json:"verdict"`
	Start    float64  `json:"start"` // the points of a value without any signal
	Total    float64  `json:"total"`
	Reasons  []Reason `json:"reasons"` // the heaviest first
	Unknown  []string `json:"unknown"` // facts that were not known
}

// Reason is a signal of a layer.
type Reason struct {
	Text   string  `json:"text"`
	Code   string  `json:"code"`
	Layer  string  `json:"layer"`
	Points float64 `json:"points"` // above 0: against the entity; below 0: for it
	// Today reports whether the layer also reads facts that were looked up again. Without it, the layer found the
	// same when the check was made, if it was in the lineup.
	Today bool `json:"facts_of_today"`
}

// Records reads recorded checks.
type Records interface {
	// RecordedCheck returns one of the account's checks. If e is not nil, it fails with an *entity.InvalidError unless
	// e is the checked entity. It fails with check.ErrUnauthorized and feedback.ErrUnknownCheck.
	RecordedCheck(ctx context.Context, c check.Caller, ref string, e *entity.Entity) (*Details, error)
}

// Scorer scores an entity without recording or counting it; *check.Checker implements it. Its errors are those of a
// check.
type Scorer interface {
	Rescore(ctx context.Context, c check.Caller, e entity.Entity) (*check.Record, error)
}

// Past opens lineups that are no longer in force.
type Past interface {
	// With calls f with a lineup that was in force, when it is the account's turn, and returns f's error.
	With(ctx context.Context, account string, revision int64, f func(*check.Lineup) error) error
}

// Explainer explains recorded checks. Its fields are set once, before use.
type Explainer struct {
	Records   Records
	Scorer    Scorer
	Collector check.Collector // nil: no lookups
	Past      Past
	Turn      replay.Turn // when layers of an earlier lineup run; nil: at once
	Logger    *slog.Logger
}

// Explain explains one of the account's checks. The caller must name the entity, because it is not stored. It returns
// the errors of [Records] and [Scorer].
func (x *Explainer) Explain(ctx context.Context, c check.Caller, ref string, e entity.Entity) (*Explanation, error) {
	recorded, err := x.Records.RecordedCheck(ctx, c, ref, &e)
	if err != nil {
		return nil, err
	}
	now, err := x.Scorer.Rescore(ctx, c, e)
	if err != nil {
		return nil, err
	}
	d := now.Decision
	today := newScoring(d.Revision, d.Fused, d.Layers, d.Terms, hostSignals(d.Signals))
	explained := &Explanation{Check: recorded.Check, Today: today, DecidedBy: today}
	looked := lookupsOf(d.Terms)
	if d.Revision != recorded.Revision {
		var more []string
		explained.DecidedBy, more, err = x.again(ctx, c.Account, recorded.Revision, now)
		if err != nil {
			x.Logger.Warn("a lineup of the past cannot explain a check", "revision", recorded.Revision, "error", err)
		}
		looked = append(looked, more...)
	}
	explained.FactsOfToday = sourcesOf(looked)
	explained.Text = explained.words()
	return explained, nil
}

// again scores a value under an earlier lineup with the facts that were looked up for today's.
func (x *Explainer) again(ctx context.Context, account string, revision int64, now *check.Record) (
	then *Scoring, looked []string, err error) {
	err = x.Past.With(ctx, account, revision, func(l *check.Lineup) error {
		unanswered := hostSignals(now.Decision.Signals)
		fused, layers, err := replay.Rescore(ctx, l, now, x.Turn,
			func(ctx context.Context, wanted []string) (entity.Facts, error) {
				if x.Collector == nil {
					return nil, nil
				}
				facts, missing, err := x.Collector.Collect(ctx, account, now.Entity, wanted)
				unanswered = append(unanswered, hostSignals(check.UnansweredSignals(missing))...)
				return facts, err
			})
		if err != nil {
			return err
		}
		terms := l.Terms(now.Entity.Type)
		then = newScoring(revision, fused, layers, terms, append(unanswered, hostSignals(fused.Signals)...))
		looked = lookupsOf(terms)
		return nil
	})
	return then, looked, err
}

// newScoring splits a score into its parts. The signals of a layer share its contribution by their points.
func newScoring(revision int64, f check.Fused, layers []check.Outcome, terms *check.Terms, unknown []string) *Scoring {
	if terms == nil { // no layer scores this type
		terms = &check.Terms{}
	}
	s := &Scoring{Revision: revision, Score: f.Score, Verdict: string(f.Verdict), Start: points(terms.Bias),
		Reasons: []Reason{}, Unknown: []string{}}
	total := terms.Bias
	for i, o := range layers {
		total += o.Contribution
		if o.Abstained {
			unknown = append(unknown, fmt.Sprintf("The %s layer knew too little to judge", o.Layer))
		}
		sum := 0
		for _, signal := range o.Signals {
			sum += signal.Points
		}
		for _, signal := range o.Signals {
			if share := o.Contribution * float64(signal.Points) / float64(cmp.Or(sum, 1)); points(share) != 0 {
				s.Reasons = append(s.Reasons, Reason{Text: signal.Text, Code: signal.Code, Layer: o.Layer,
					Points: points(share), Today: len(terms.Layers[i].Lookups) > 0})
			}
		}
	}
	s.Total = points(total)
	slices.SortStableFunc(s.Reasons, func(a, b Reason) int {
		return cmp.Compare(math.Abs(b.Points), math.Abs(a.Points))
	})
	for _, text := range unknown {
		if !slices.Contains(s.Unknown, text) {
			s.Unknown = append(s.Unknown, text)
		}
	}
	return s
}

// points converts log-odds to points with one decimal; 10 points double the odds.
func points(logOdds float64) float64 { return math.Round(100*logOdds/math.Ln2) / 10 }

// hostSignals returns the texts of the host's own signals, which report missing parts of a score.
func hostSignals(signals []check.Signal) (texts []string) {
	for _, s := range signals {
		if strings.HasPrefix(s.Code, "host:") {
			texts = append(texts, strings.TrimPrefix(s.Text, "Assay: "))
		}
	}
	return texts
}

func lookupsOf(terms *check.Terms) []string {
	if terms == nil {
		return nil
	}
	return slices.Clone(terms.Lookups)
}

// sourcesOf returns the readable names of the sources of facts, each once.
func sourcesOf(facts []string) []string {
	names := []string{}
	for _, fact := range facts {
		source, _, _ := strings.Cut(fact, ".")
		if name := check.SourceName(source); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// outcomes are the verdicts as participles.
var outcomes = map[string]string{
	string(check.Allow): "allowed", string(check.Review): "held for review", string(check.Block): "blocked",
}

// words returns the explanation as paragraphs.
func (x *Explanation) words() []string {
	when := x.Timestamp
	if at, err := time.Parse(check.TimeFormat, x.Timestamp); err == nil {
		when = at.UTC().Format("2 January 2006, 15:04 UTC")
	}
	kind := x.Type
	if kind == string(entity.IBAN) {
		kind = "IBAN"
	}
	text := []string{fmt.Sprintf("On %s, this %s was scored %d of 100 and %s, by revision %d of the lineup, which is "+
		"the set of layers and their weights.", when, kind, x.Score, outcomes[x.Verdict], x.Revision)}
	if x.Overridden {
		text = append(text, "An override that was set in advance decided the verdict, not the layers. What follows is "+
			"what the layers find.")
	}
	switch {
	case x.DecidedBy == nil:
		text = append(text, fmt.Sprintf("Revision %d can no longer be loaded. Today's lineup, revision %d, gives "+
			"%s.", x.Revision, x.Today.Revision, x.Today.words()))
	case x.DecidedBy.Revision == x.Today.Revision:
		text = append(text, fmt.Sprintf("The same lineup is in force today. It gives %s.", x.Today.words()))
	default:
		text = append(text, fmt.Sprintf("Scored again, the lineup that decided gives %s.", x.DecidedBy.words()),
			fmt.Sprintf("Today's lineup, revision %d, gives %s.", x.Today.Revision, x.Today.words()))
	}
	if len(x.FactsOfToday) == 0 {
		return append(text, "All facts come from the value itself, so they are the same as at the check.")
	}
	return append(text, "Facts that come from the value itself are the same as at the check. These were looked up "+
		"again and may have changed since: "+strings.Join(x.FactsOfToday, ", ")+".")
}

// words returns the score, the verdict and the heaviest reasons.
func (s *Scoring) words() string {
	text := fmt.Sprintf("%d of 100 (%s)", s.Score, outcomes[s.Verdict])
	var against, favour []string
	for _, r := range s.Reasons {
		if r.Points > 0 && len(against) < 3 {
			against = append(against, r.Text)
		} else if r.Points < 0 && len(favour) < 3 {
			favour = append(favour, r.Text)
		}
	}
	if against != nil {
		text += ". Main reasons: " + strings.Join(against, "; ")
	}
	if favour != nil {
		text += ". In its favour: " + strings.Join(favour, "; ")
	}
	return text
}
