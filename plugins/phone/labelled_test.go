package main

import (
	"testing"

	"assay/host/entity"
	"assay/registry/layertest"
)

// TestLabelled holds the layer to labelled lines. The reported blocks were counted from these lines.
func TestLabelled(t *testing.T) {
	t.Parallel()
	layertest.Labelled(t, Score, entity.Phone, "train_phones.jsonl", layertest.Bounds{Lines: 1000, Review: 59, Block: 72,
		Seen: 6, Found: 0.93})
}
