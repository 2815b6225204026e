package main

import (
	"testing"

	"assay/host/entity"
	"assay/registry/layertest"
)

// TestLabelled holds the layer to labelled lines. What it learned, it learned from these: the command train measures it
// on others.
func TestLabelled(t *testing.T) {
	t.Parallel()
	layertest.Labelled(t, Score, entity.Email, "train_emails.jsonl", layertest.Bounds{Lines: 2000, Review: 70, Block: 86,
		Seen: 22, Found: 0.45})
}
