// Package model holds the released model of the lexical layer, as plugins/internal/train/lexical writes it.
package model

import (
	_ "embed"

	"assay/plugins/lexical/ngram"
)

// The files of the model. A compiled layer holds their bytes in its memory.
var (
	//go:embed weights.head
	Head string
	//go:embed weights-0.bin
	Piece0 []byte
	//go:embed weights-1.bin
	Piece1 []byte
	//go:embed words.bin
	vocabulary []byte
)

// Open returns the weights.
func Open() (*ngram.Table, error) { return ngram.Open(Head, Piece0, Piece1) }

// Words returns the vocabulary.
func Words() (*ngram.Words, error) { return ngram.OpenWords(vocabulary, ngram.WordBits) }
