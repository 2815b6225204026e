package auditlog

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"assay/host/audit"
	"assay/host/customer/override"
	"assay/host/store"
)

// overrideRecords holds the records of all chains about overrides, by id.
type overrideRecords struct {
	added   map[string]overrideRecord
	removed map[string]bool
}

type overrideRecord struct {
	chain   int
	seq     int64
	mac     []byte
	expires int64 // Unix milliseconds
}

// add notes a record of kind audit.Override.
func (o overrideRecords) add(chain int, row audit.Row) {
	r := row.Record
	if r.Verdict == audit.OverrideRemoved {
		o.removed[strings.TrimSuffix(r.Ref, "-"+audit.OverrideRemoved)] = true
		return
	}
	o.added[r.Ref] = overrideRecord{chain: chain, seq: row.Seq, mac: r.Digest, expires: r.Revision}
}

// compare returns a BreakError for each override that is not stored as it was recorded, and for each that is stored but
// was not recorded. Expired overrides do not count, and may have been pruned.
func (o overrideRecords) compare(ctx context.Context, log store.AuditLog, keys override.Keys, now time.Time) (
	altered []*audit.BreakError, err error) {
	stored, err := log.Overrides(ctx, keys, now)
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for _, row := range stored {
		found[row.ID] = true
		record, recorded := o.added[row.ID]
		reason := ""
		switch {
		case !row.Authentic:
			reason = "was altered"
		case !recorded:
			reason = "is stored, but no record says that it was added"
		case o.removed[row.ID]:
			reason = "is stored, but a record says that it was removed"
		case !bytes.Equal(record.mac, row.MAC):
			reason = "differs from the one that was added"
		}
		if reason != "" {
			altered = append(altered, &audit.BreakError{Chain: cmp.Or(record.chain, row.Chain), Seq: record.seq,
				Reason: "the override " + row.ID + " " + reason})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(o.added)) {
		record := o.added[id]
		if !found[id] && !o.removed[id] && record.expires > now.UnixMilli() {
			altered = append(altered, &audit.BreakError{Chain: record.chain, Seq: record.seq,
				Reason: "the override " + id + " is gone, but no record says that it was removed"})
		}
	}
	return altered, nil
}

// report notes breaks in the reports of their chains and joins them. It leaves out chains that do not verify: not all
// of their records were read.
func report(reports []Report, breaks []*audit.BreakError) (joined error) {
	whole := map[int]bool{}
	for _, r := range reports {
		whole[r.Chain] = r.OK
	}
	for _, b := range breaks {
		if !whole[b.Chain] {
			continue
		}
		joined = errors.Join(joined, b)
		i := slices.IndexFunc(reports, func(r Report) bool { return r.Chain == b.Chain })
		reports[i].OK, reports[i].Error = false, b.Error()
	}
	return joined
}
