package auditlog

import (
	"math"
	"strings"
	"testing"

	"assay/host/store/storetest"
	"assay/registry"
)

// Records outside the chain would be listed and exported like others, so verifying fails even without checkpoints.
func TestVerifyRecordsOutsideTheChain(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ tamper, reason string }{
		"after the head": {`
			INSERT INTO audit_records (chain, seq, recorded_at, at, kind, ref, account_id, nonce, leaf, hash)
			SELECT chain, 5, recorded_at, at, kind, 'chk_forged', account_id, nonce, leaf, hash
			FROM audit_records WHERE seq = 4`,
			"breaks at record 5: the record does not match its leaf"},
		"in a chain without a head": {`
			INSERT INTO audit_records (chain, seq, recorded_at, at, kind, ref, account_id, nonce, leaf, hash)
			SELECT 7, 1, recorded_at, at, kind, 'chk_forged', account_id, nonce, leaf, hash
			FROM audit_records WHERE seq = 4`,
			"audit chain 7 breaks at record 1"},
		"after a head that was set back": {
			`UPDATE audit_heads SET (seq, hash) = (SELECT seq, hash FROM audit_records WHERE seq = 2)`,
			"the chain's head is record 2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, db := oldLog(t)
			storetest.Exec(t, db, test.tamper)
			reports, broken, err := Verify(t.Context(), k.Store, k.Signer, nil)
			storetest.NoError(t, err)
			storetest.WantErrorText(t, "the log", broken, test.reason)
			if n := len(reports); reports[n-1].OK {
				t.Errorf("reports %+v", reports)
			}
		})
	}
}

// The log proves which weights decided a check, so a lineup altered after its activation must be detected.
func TestVerifyAlteredLineup(t *testing.T) {
	t.Parallel()
	k, db := oldLog(t)
	lineup := registry.LineupDocument{
		Note: "<tried> \xff", Bias: registry.ForAll(math.Copysign(0, -1)), Bands: registry.Bands{Review: 40, Block: 70},
		Layers: []registry.LineupLayer{{Layer: "probe@1.0.0", Weight: registry.ForAll(1e-7),
			Config: map[string]string{"b": "\u2028", "a": "é"}}},
	}
	for range 2 {
		storetest.Must(k.Store.ActivateLineup(t.Context(), lineup, registry.OriginOperator, ""))(t)
	}
	for _, test := range []struct{ tamper, reason string }{
		{"SELECT", ""},
		{"UPDATE lineup_revisions SET document = jsonb_set(document, '{bias}', '-4.5') WHERE revision = 2",
			"record 6: the stored lineup revision 2 differs"},
		{"UPDATE lineup_revisions SET document = '[]' WHERE revision = 1",
			"record 5: the stored lineup revision 1 differs"},
		{"DELETE FROM lineup_activations; DELETE FROM lineup_revisions",
			"record 5: the stored lineup revision 1 differs"},
	} {
		storetest.Exec(t, db, test.tamper)
		_, broken, err := Verify(t.Context(), k.Store, k.Signer, nil)
		if err != nil || (test.reason == "") != (broken == nil) ||
			broken != nil && !strings.Contains(broken.Error(), test.reason) {
			t.Errorf("%s: %v, %v; want %q", test.tamper, broken, err, test.reason)
		}
	}
}
