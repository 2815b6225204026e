package ngram

import _ "embed"

// The released weights and words, as plugins/internal/train/lexical writes them. A compiled layer has their bytes in
// its memory.
var (
	//go:embed weights.head
	releasedHead string
	//go:embed weights-0.bin
	releasedPiece0 []byte
	//go:embed weights-1.bin
	releasedPiece1 []byte
	//go:embed words.bin
	releasedWords []byte
)

// Released returns the files of the released table: its head, and its pieces.
func Released() (head string, pieces [Pieces][]byte) {
	return releasedHead, [Pieces][]byte{releasedPiece0, releasedPiece1}
}

// OpenReleased opens the released table.
func OpenReleased() (*Table, error) { return Open(releasedHead, releasedPiece0, releasedPiece1) }

// ReleasedWords opens the released vocabulary.
func ReleasedWords() (*Words, error) { return OpenWords(releasedWords, WordBits) }
