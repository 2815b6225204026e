package learn

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"assay/host/entity"
	"assay/host/measure/eval"
	"assay/plugins/internal/train"
	"assay/plugins/lexical/ngram"
	"assay/registry"
	"assay/registry/expect"
)

// layer returns a module whose memory holds the released model, as a compiled one does.
func layer(t *testing.T) registry.Module {
	t.Helper()
	data, at := binary.AppendUvarint(nil, 3), uint64(0)
	head, pieces := ngram.Released()
	for _, part := range append(pieces[:], []byte(head)) {
		data = append(binary.AppendUvarint(append(data, 0, 0x41), at), 0, 0x0b)
		data[len(data)-3] |= 0x80 // the address takes a byte more, which every number may
		data = append(binary.AppendUvarint(data, uint64(len(part))), part...)
		at += uint64(len(part))
	}
	wasm := append([]byte("\x00asm\x01\x00\x00\x00"), 11)
	wasm = append(binary.AppendUvarint(wasm, uint64(len(data))), data...)
	manifest := `{"name": "lexical", "version": "1.5.0", "summary": "Spelling", "entities": ["domain"],
		"class": "style", "score_range": [-38, 100], "facts": [], "signals": [], "threats": [],
		"budget_fuel": 5000, "memory_mb": 8, "default_weight": 1}`
	return expect.Value(registry.OpenModule(expect.Value(registry.Pack(wasm, []byte(manifest), nil))(t)))(t)
}

// names returns rows of n names that contain a word. Their first letters differ.
func names(word, source string, malicious bool, n int) (rows []eval.Row) {
	for i := range n {
		rows = append(rows, eval.Row{Type: entity.Domain, Value: fmt.Sprintf("%x%s.com", i*7919, word),
			Malicious: malicious, Source: source})
	}
	return rows
}

func always([]byte) (bool, error) { return true, nil }

// Names like the reported ones get more points, and honest ones no more than before. Two trainings give the same bytes,
// and a layer whose cases allow less keeps less.
func TestRetrain(t *testing.T) {
	t.Parallel()
	const each = 900
	rows := slices.Concat(names("zorblaxpay", "desk", true, each), names("gartenbau", "customers", false, each))
	first := expect.Value(Retrain(layer(t), "1.5.1-local.1", rows, always))(t)
	second := expect.Value(Retrain(layer(t), "1.5.1-local.1", rows, always))(t)
	expect.That(t, bytes.Equal(first.Wasm, second.Wasm), "two trainings gave different layers")
	expect.That(t, first.Share == 1 && first.Learned > 2*len(first.Held) && len(first.Held) > each/6,
		"%d names were learned and %d held of %d", first.Learned, len(first.Held), len(rows))
	released, words := expect.Value(Released())(t), expect.Value(ngram.ReleasedWords())(t)
	held := ReadRows([]*train.Domain{expect.Value(train.NewDomain(entity.Domain, "oderzorblaxpay.com"))(t),
		expect.Value(train.NewDomain(entity.Domain, "odergartenbau.com"))(t)}, words)
	learned, chosen, _, err := split(rows)
	expect.NoError(t, err)
	taught := released.Refit(learned.rows)
	now, before := taught.Points(&held[0]), released.Points(&held[0])
	expect.That(t, now >= before+10, "a name like the reported ones has %v points after %v", now, before)
	now, before = taught.Points(&held[1]), released.Points(&held[1])
	expect.That(t, now <= before, "a name like the honest ones has %v points after %v", now, before)
	expect.Equal(t, "excess", excess(taught.honest(chosen), released.honest(chosen)), 0)
	tries := 0
	few := expect.Value(Retrain(layer(t), "1.5.1-local.1", rows, func([]byte) (bool, error) {
		tries++
		return tries == 3, nil
	}))(t)
	expect.That(t, few.Share > 0.6 && few.Share < 0.7 && !bytes.Equal(few.Wasm, first.Wasm),
		"after two failures, %v of it is kept", few.Share)
	mixed := slices.Concat(rows, names("zorblaxpay", "customers", false, each+30)[each:])
	learned, chosen, _, _ = split(mixed)
	lowered := released.toward(released.Refit(learned.rows), 1)
	more := excess(lowered.honest(chosen), released.honest(chosen))
	lowered.bias -= more
	expect.That(t, more > 10 && bytes.Contains(expect.Value(Retrain(layer(t), "1.5.1", mixed, always))(t).Wasm,
		lowered.Head(noBar)), "the bias was not lowered by %v points", more)
	_, err = Retrain(layer(t), "1.5.1", rows, func([]byte) (bool, error) { return false, nil })
	expect.ErrorText(t, "a layer that fails its cases", err, "own cases fail")
	m := expect.Value(registry.OpenModule(first.Wasm))(t).Manifest
	expect.That(t, m.Version == "1.5.1-local.1" && m.Blocks == nil && *m.ScoreRange == [2]int{lowest, cautious},
		"with few honest names, the manifest is %+v", m)
}

// Enough honest names prove that a layer may block.
func TestProof(t *testing.T) {
	t.Parallel()
	rows := slices.Concat(names("zorblaxpay", "desk", true, 900), names("gartenbau", "customers", false, 12_000),
		names("weberei", "members", false, 900))
	r := expect.Value(Retrain(layer(t), "1.5.1", rows, always))(t)
	blocks := expect.Value(registry.OpenModule(r.Wasm))(t).Manifest.Blocks
	expect.Must(t, blocks != nil && len(blocks.Honest) == 1, "the proof is %+v", blocks)
	p := blocks.Honest[0]
	expect.That(t, p.Kind == "customers" && p.Names >= registry.LeastNames && p.Reached == 0, "the proof is %+v", p)
}

// What names cannot teach is left out: sites on shared hosts, repeated names, an account's rows after the first 100.
func TestSplit(t *testing.T) {
	t.Parallel()
	rows := slices.Concat(names("zorblaxpay", "desk", true, 900), names("gartenbau", "customers", false, 900))
	count := func(more ...eval.Row) int {
		learned, chosen, held, err := split(append(slices.Clone(rows), more...))
		expect.NoError(t, err)
		return len(learned.rows) + len(chosen.rows) + len(held.rows)
	}
	plain := count()
	hosted := eval.Row{Type: entity.Domain, Value: "zorblaxpay.pages.dev", Malicious: true}
	expect.Equal(t, "names with a shared host and a repeated one", count(hosted, rows[0]), plain)
	reported := names("wollzorblax", "customer", true, 150)
	expect.Equal(t, "names with an account's", count(reported...), plain+150)
	for i := range reported {
		reported[i].Account = "acct_1"
	}
	expect.Equal(t, "names with an account's", count(reported...), plain+perAccount)
	_, _, _, err := split(rows[:1000])
	expect.ErrorText(t, "few honest names", err, "a part of the names has")
	for i := range rows {
		rows[i].Date = "2026-01-01"
	}
	rows[1].Date, rows[2].Date = "2999-01-01", "unknown"
	learned, _, _, err := split(rows)
	expect.That(t, err == nil && learned.rows[9].Age == 0, "with two mistyped dates, a row is not new")
}

// Points are lowered until no more honest names than before are reviewed.
func TestExcess(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		now, before []float64
		want        float64
	}{
		"none before":      {[]float64{50, 20}, []float64{46, 10}, 4},
		"one before":       {[]float64{90, 49, 48}, []float64{47, 46, 10}, 3},
		"no more than one": {[]float64{90, 46, 20}, []float64{60, 30, 20}, 0},
		"all before":       {[]float64{90, 80}, []float64{60, 50}, 0},
	} {
		expect.Equal(t, name, excess(tt.now, tt.before), tt.want)
	}
	expect.Equal(t, "bar of 4,000 honest names", leastBar(append([]float64{99, 95, 90}, make([]float64, 3997)...)), 91)
}
