package main

import (
	"testing"

	"assay/host/entity"
	"assay/registry/layertest"
)

// TestLabelled holds the layer to labelled lines.
func TestLabelled(t *testing.T) {
	t.Parallel()
	layertest.Labelled(t, Score, entity.IBAN, "train_ibans.jsonl", layertest.Bounds{Lines: 700, Review: 59, Block: 72,
		Seen: 20, Found: 0.99})
}
