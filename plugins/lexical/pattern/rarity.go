package pattern

// Rarity is a table of how rare each pair of neighbouring letters is in honest names: 4 times the negative binary
// logarithm of the probability of the second letter after the first, encoded as a character from '#' (0) up. A row is
// the first letter, with row 0 for the start of a run. A column is the second letter, with the last column for the end.
type Rarity string

// The size of a table and its lowest character.
const (
	RarityRows    = 27
	RarityColumns = 27
	RarityZero    = '#'
)

// Of returns the mean rarity of the pairs in run, including its start and end, in quarters of a bit. run must only
// contain letters a to z.
func (r *Rarity) Of(run string) int {
	if run == "" {
		return 0
	}
	table := string(*r)
	sum, row := 0, 0
	for i := range len(run) {
		column := int(run[i] - 'a')
		sum += int(table[row*RarityColumns+column] - RarityZero)
		row = column + 1
	}
	sum += int(table[row*RarityColumns+RarityColumns-1] - RarityZero)
	return sum / (len(run) + 1)
}
