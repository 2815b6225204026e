package replay

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"assay/host/check"
	"assay/host/entity"
)

// content is the part of a check that a ring stores, besides the terms of its lineup. Facts from parsing are not
// stored: they are computed again from the value as it was sent.
type content struct {
	Type     entity.Type
	Query    string // the value as it was sent
	Country  string
	Parsed   entity.Facts // nil: not kept, and Query is parsed again
	Score    int
	Verdict  check.Verdict
	LookedUp entity.Facts
	Layers   []check.Outcome // only the fields that encode documents
}

var (
	types    = entity.Types()
	verdicts = []check.Verdict{check.Allow, check.Review, check.Block}
	failures = []check.FailureReason{"", check.Exhausted, check.Trap, check.Refused}
)

// encode appends a check to b. Of the layers' outcomes it keeps the score, whether the layer abstained or failed, and
// the points and codes of the signals. A check must cost little here, because it is not answered yet: maps of facts
// would cost more than this text, in memory and for the garbage collector.
func encode(b []byte, r *check.Record) []byte {
	d := r.Decision
	b = append(b, byte(slices.Index(types, d.Type)), byte(d.Score), byte(slices.Index(verdicts, d.Verdict)))
	b = appendText(b, d.Query)
	b = appendText(b, r.Entity.Facts[countryFact])
	b = binary.AppendUvarint(b, uint64(len(r.LookedUp)))
	for name, value := range r.LookedUp {
		b = appendText(b, name)
		b = appendText(b, value)
	}
	b = binary.AppendUvarint(b, uint64(len(d.Layers)))
	for i := range d.Layers {
		o := &d.Layers[i]
		state := byte(slices.Index(failures, o.Failure)) << 1
		if o.Abstained {
			state |= 1
		}
		b = append(b, state, byte(int8(o.Score)))
		b = binary.AppendUvarint(b, uint64(len(o.Signals)))
		for j := range o.Signals {
			b = append(b, byte(int8(o.Signals[j].Points)))
			b = appendText(b, o.Signals[j].Code)
		}
	}
	return b
}

// countryFact is the fact that parsing takes from the request's region.
const countryFact = "entity.country"

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

var errContent = errors.New("a remembered check is damaged")

// decode reads the output of encode.
func decode(b []byte) (c content, err error) {
	defer func() {
		if recover() != nil { // an index out of range
			err = errContent
		}
	}()
	c.Type, c.Score, c.Verdict = types[b[0]], int(b[1]), verdicts[b[2]]
	d := decoder(b[3:])
	c.Query, c.Country = d.text(), d.text()
	if n := d.number(); n > 0 {
		c.LookedUp = make(entity.Facts, n)
		for range n {
			name := d.text()
			c.LookedUp[name] = d.text()
		}
	}
	c.Layers = make([]check.Outcome, d.number())
	for i := range c.Layers {
		o := &c.Layers[i]
		state := d.byte()
		o.Abstained, o.Failure, o.Score = state&1 != 0, failures[state>>1], int(int8(d.byte()))
		if n := d.number(); n > 0 {
			o.Signals = make([]check.Signal, n)
		}
		for j := range o.Signals {
			o.Signals[j].Points = int(int8(d.byte()))
			o.Signals[j].Code = d.text()
		}
	}
	if len(d) != 0 {
		return c, errContent
	}
	return c, nil
}

// decoder reads from the beginning of a text. It panics at the end.
type decoder []byte

func (d *decoder) byte() byte {
	b := (*d)[0]
	*d = (*d)[1:]
	return b
}

func (d *decoder) number() int {
	n, length := binary.Uvarint(*d)
	if length <= 0 || n > math.MaxInt32 || int(n) > len(*d) {
		panic(errContent)
	}
	*d = (*d)[length:]
	return int(n)
}

func (d *decoder) text() string {
	n := d.number()
	s := string((*d)[:n])
	*d = (*d)[n:]
	return s
}
