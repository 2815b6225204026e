package main

import (
	"testing"

	"assay/host/entity"
	"assay/plugins/casebook"
)

// TestLabelled holds the layer to labelled lines. The reported blocks were counted from these lines.
func TestLabelled(t *testing.T) {
	t.Parallel()
	casebook.Labelled(t, Score, entity.Phone, "train_phones.jsonl", casebook.Bounds{Lines: 1000, Review: 59, Block: 72,
		Seen: 6, Found: 0.93})
}
