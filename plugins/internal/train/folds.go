package train

import (
	"maps"
	"slices"
)

// Labelled is what decides which fold a row belongs to.
type Labelled struct {
	Source  string // rows of one source are held out together
	Letters string // the first six of the value's name: rows that share them are never apart
	Split   bool   // the source is the only one of its kind, so it is held out a fifth at a time, by letters
}

// sixLetters is how many bytes of a name two rows share if one is said to be a sister of the other.
const sixLetters = 6

// Letters returns the letters of a name for [Labelled].
func Letters(name string) string { return name[:min(len(name), sixLetters)] }

// Fold is a set of rows to test on, and what may not be trained on.
type Fold struct {
	Name    string
	Test    []int // indices of rows
	source  string
	letters map[string]bool
}

// Allows reports whether a row may be trained on: it shares neither source nor letters with the fold's rows.
func (f *Fold) Allows(source, letters string) bool { return source != f.source && !f.letters[letters] }

// parts is how many folds a source is split into that is the only one of its kind.
const parts = 5

// Folds holds out one source at a time. Every row is tested once.
func Folds(rows []Labelled) []Fold {
	folds := map[string]*Fold{}
	for i, r := range rows {
		name, source := r.Source, r.Source
		if r.Split {
			name, source = r.Source+" "+string(rune('1'+Hash(r.Letters)%parts)), ""
		}
		f := folds[name]
		if f == nil {
			f = &Fold{Name: name, source: source, letters: map[string]bool{}}
			folds[name] = f
		}
		f.Test = append(f.Test, i)
		f.letters[r.Letters] = true
	}
	var list []Fold
	for _, name := range slices.Sorted(maps.Keys(folds)) {
		list = append(list, *folds[name])
	}
	return list
}
