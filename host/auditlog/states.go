package auditlog

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"assay/host/audit"
	"assay/host/store"
)

// stateRecords holds the last record of each account, key, lineup and so on in the chains of states, by type and ID.
type stateRecords map[stateName]stateRecord

type stateName struct{ typ, id string }

type stateRecord struct {
	chain  int
	seq    int64
	digest []byte // nil: it was removed
	ends   int64  // Unix milliseconds; 0: it does not
}

// add notes a record of kind audit.State, and returns what is wrong with it, or "". All records of a state must be in
// one chain, because the order of records in two chains is unknown.
func (s stateRecords) add(chain int, row audit.Row) (reason string) {
	r := row.Record
	name := stateName{r.Type, cmp.Or(r.Key, r.Account)}
	if before, ok := s[name]; ok && before.chain != chain {
		return fmt.Sprintf("the %s %s was recorded in chain %d before", name.typ, name.id, before.chain)
	}
	s[name] = stateRecord{chain, row.Seq, r.Digest, r.Revision}
	return ""
}

// keptAfterEnd is how long a key's row is kept after the key has ended. The row is then deleted without a record. An
// override's row is also deleted without one, at any time after the override has expired.
const keptAfterEnd = 30 * 24 * time.Hour

// deletable reports whether a row may have been deleted without a record.
func (r stateRecord) deletable(typ string, now time.Time) bool {
	kept := time.Duration(0)
	if typ == "key" {
		kept = keptAfterEnd
	}
	return r.ends != 0 && !now.Before(time.UnixMilli(r.ends).Add(kept))
}

// compare returns a BreakError for each stored state that differs from its last record, or has none although all is
// set, and for each recorded state that is not stored. all means that s has all records.
func (s stateRecords) compare(stored []store.StoredState, all bool, now time.Time) (altered []*audit.BreakError) {
	found := map[stateName]bool{}
	wrong := func(name stateName, reason string) {
		altered = append(altered, &audit.BreakError{Chain: cmp.Or(s[name].chain, audit.StateChain), Seq: s[name].seq,
			Reason: "the " + name.typ + " " + name.id + " " + reason})
	}
	for _, state := range stored {
		name := stateName{state.Type, state.ID}
		record, recorded := s[name]
		switch {
		case found[name]:
			wrong(name, "is stored twice")
		case !recorded && !all:
		case !recorded:
			wrong(name, "is stored, but no record says that it was added")
		case record.digest == nil:
			wrong(name, "is stored, but a record says that it was removed")
		case !bytes.Equal(record.digest, state.Digest):
			wrong(name, "differs from its last record: it was altered")
		}
		found[name] = true
	}
	names := slices.SortedFunc(maps.Keys(s), func(a, b stateName) int {
		return cmp.Or(cmp.Compare(a.typ, b.typ), cmp.Compare(a.id, b.id))
	})
	for _, name := range names {
		record := s[name]
		if !found[name] && record.digest != nil && !record.deletable(name.typ, now) {
			wrong(name, "is gone, but no record says that it was removed")
		}
	}
	return altered
}
