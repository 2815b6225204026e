package train

import "testing"

// Every row is tested once, unless it is not to be, and no fold allows a row that shares source or letters with it.
func TestFolds(t *testing.T) {
	t.Parallel()
	var rows []Labelled
	for i := range 600 {
		r := Labelled{Source: string(rune('a' + i%6)), Letters: Letters(string(rune('A'+i%97)) + "12345678")}
		r.Split = r.Source == "a"
		rows = append(rows, r)
	}
	rows = append(rows, Labelled{Source: "untested", Untested: true})
	tested := make([]int, len(rows))
	folds := Folds(rows)
	if len(folds) != 5+parts {
		t.Errorf("%d folds, want 5 sources and %d parts of the one that is split", len(folds), parts)
	}
	for _, f := range folds {
		for _, i := range f.Test {
			tested[i]++
			if f.Allows("new", rows[i].Letters) || !rows[i].Split && f.Allows(rows[i].Source, "new") {
				t.Errorf("fold %s allows rows of %+v", f.Name, rows[i])
			}
		}
		if !f.Allows("new", "new") {
			t.Errorf("fold %s allows nothing", f.Name)
		}
	}
	for i, n := range tested {
		if want := i < 600; (n == 1) != want || n > 1 {
			t.Errorf("row %d is tested %d times", i, n)
		}
	}
}
