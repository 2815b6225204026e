package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"assay/host/audit"
	"assay/host/internal/durable"
)

// Answered remembers the newest batches of each audit chain that the database confirmed and the host answered for. It
// is kept outside the database, so that a host notices when the database was set back to an earlier state. In memory it
// is exact, except for a batch whose reply was lost, which the next batch covers. Only Save writes its file, so a host
// that is killed forgets the batches since then.
type Answered struct {
	path string // "": only in memory

	mu      sync.Mutex
	chains  map[int][]answeredBatch // in ascending order of their numbers
	changed bool                    // since the file was written
	failed  error                   // the error of the last Save
}

// answeredBatch is a batch that the database confirmed.
type answeredBatch struct {
	Seq  int64     `json:"seq"`  // of its last record
	Hash []byte    `json:"hash"` // of that record
	At   time.Time `json:"at"`   // when that record was recorded
	Refs []string  `json:"refs"` // of all its records
}

// The number of references remembered for each chain. They identify the checks of a lost batch.
const (
	refsInMemory = 16384
	refsInFile   = 512
)

// OpenAnswered reads the remembered batches from a file, which need not exist.
func OpenAnswered(path string) (*Answered, error) {
	a := &Answered{path: path, chains: map[int][]answeredBatch{}}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return a, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &a.chains)
	}
	for _, batches := range a.chains {
		for i, b := range batches {
			if len(b.Hash) != len(audit.Hash{}) || b.Seq < 1 || i > 0 && b.Seq <= batches[i-1].Seq {
				err = errors.New("a batch has a wrong number or hash")
			}
		}
	}
	return a, wrap(err, "reading what this host answered for from %s", path)
}

// last returns the newest batch of a chain; its number is 0 if there is none.
func (a *Answered) last(chain int) answeredBatch {
	a.mu.Lock()
	defer a.mu.Unlock()
	if batches := a.chains[chain]; len(batches) > 0 {
		return batches[len(batches)-1]
	}
	return answeredBatch{}
}

// add remembers a batch. Batches of one chain can be added in any order.
func (a *Answered) add(chain int, b answeredBatch) {
	b.At = b.At.UTC().Truncate(time.Microsecond) // as the database stores it
	a.mu.Lock()
	defer a.mu.Unlock()
	batches := a.chains[chain]
	at, found := slices.BinarySearchFunc(batches, b.Seq, func(b answeredBatch, seq int64) int {
		return int(b.Seq - seq)
	})
	if found {
		return
	}
	a.chains[chain] = newestOf(slices.Insert(batches, at, b), refsInMemory)
	a.changed = true
}

// newestOf returns the newest batches with at most refs references in total, and always at least one batch.
func newestOf(batches []answeredBatch, refs int) []answeredBatch {
	first := len(batches) - 1
	for n := len(batches[first].Refs); first > 0; first-- {
		if n += len(batches[first-1].Refs); n > refs {
			break
		}
	}
	return batches[first:]
}

// forget drops the batches of a chain.
func (a *Answered) forget(chain int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.chains, chain)
	a.changed = true
}

// batches returns a copy of the remembered batches by chain.
func (a *Answered) batches() map[int][]answeredBatch {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := make(map[int][]answeredBatch, len(a.chains))
	for chain, batches := range a.chains {
		all[chain] = slices.Clone(batches)
	}
	return all
}

// Unwritten returns a warning if the newest batches could not be written to the file.
func (a *Answered) Unwritten() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failed == nil {
		return nil
	}
	return []string{"what this host answered is only in memory: " + a.failed.Error()}
}

// Save writes the newest batches to the file, unless it has them. Of consecutive failures, it returns only the first.
func (a *Answered) Save() error {
	a.mu.Lock()
	if a.path == "" || !a.changed {
		a.mu.Unlock()
		return nil
	}
	newest := make(map[int][]answeredBatch, len(a.chains))
	for chain, batches := range a.chains {
		newest[chain] = newestOf(batches, refsInFile)
	}
	text, err := json.Marshal(newest)
	a.changed = false
	a.mu.Unlock()
	if err == nil {
		err = durable.WriteFile(a.path, text)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	again := a.failed != nil
	if a.failed = err; err == nil {
		return nil
	}
	a.changed = true
	if again {
		return nil
	}
	return fmt.Errorf("remembering what was answered: %w", err)
}
