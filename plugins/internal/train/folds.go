package train

import (
	"maps"
	"slices"

	"assay/host/measure/eval"
)

// Labelled holds the properties of a row that decide its fold.
type Labelled struct {
	Source   string // rows of one source are held out together
	Letters  string // see [eval.Letters]; rows that share them are never separated
	Split    bool   // the source is the only one of its kind, so it is held out a fifth at a time, by letters
	Untested bool   // in no fold
}

// Fold is a set of rows to test on, with the source and the letters that must not be trained on.
type Fold struct {
	Name    string
	Test    []int32 // indices of rows
	source  string  // "" for a part of sources
	letters map[string]bool
}

// Allows reports whether a row may be trained on: it shares neither source nor letters with the fold's rows.
func (f *Fold) Allows(source, letters string) bool {
	return (f.source == "" || source != f.source) && !f.letters[letters]
}

// parts is the number of folds for a source that is the only one of its kind.
const parts = 5

// Folds holds out one source at a time. Every row is in one fold, unless it is Untested.
func Folds(rows []Labelled) []Fold {
	folds := map[string]*Fold{}
	for i, r := range rows {
		if r.Untested {
			continue
		}
		name, source := r.Source, r.Source
		if r.Split {
			name, source = r.Source+" "+string(rune('1'+eval.Hash(r.Letters)%parts)), ""
		}
		f := folds[name]
		if f == nil {
			f = &Fold{Name: name, source: source, letters: map[string]bool{}}
			folds[name] = f
		}
		f.Test = append(f.Test, int32(i))
		f.letters[r.Letters] = true
	}
	var list []Fold
	for _, name := range slices.Sorted(maps.Keys(folds)) {
		list = append(list, *folds[name])
	}
	return list
}
