package change

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/lineup"
	"assay/host/lineup/fleet"
	"assay/host/lineup/replay"
	"assay/registry"
	"assay/registry/activation"
	"assay/registry/expect"
	"assay/registry/release"
)

// database is a storage in memory, whose one host, if it is not nil, answers as told.
type database struct {
	Storage
	last      string
	notes     map[registry.Digest]string // activations
	texts     [][]byte
	published registry.Module // the one module
	signature string          // of it

	host      *fleet.Host
	answer    fleet.Answer
	proposed  func() // called when hosts are asked
	activated func() error
}

func (d *database) LastActivation(context.Context) (string, bool, error) {
	return d.last, d.last != "", nil
}
func (d *database) Module(context.Context, registry.Digest) (registry.Module, error) {
	return d.published, nil
}
func (d *database) PluginNotes(context.Context, registry.Digest) (registry.Notes, error) {
	return registry.Notes{registry.NoteSignature: d.signature}, nil
}
func (d *database) ExtendCandidate(context.Context, string) error   { return nil }
func (d *database) WithdrawCandidate(context.Context, string) error { return nil }

func (d *database) Activation(_ context.Context, hash registry.Digest) (string, error) {
	if note, ok := d.notes[hash]; ok {
		return note, nil
	}
	return "", activation.ErrNone
}

func (d *database) LineupText(_ context.Context, revision int64) ([]byte, error) {
	return d.texts[revision-1], nil
}

func (d *database) StoreLineup(_ context.Context, text []byte, _ registry.LineupOrigin) (int64, error) {
	if i := slices.IndexFunc(d.texts, func(t []byte) bool { return bytes.Equal(t, text) }); i >= 0 {
		return int64(i) + 1, nil
	}
	d.texts = append(d.texts, text)
	return int64(len(d.texts)), nil
}

func (d *database) Activate(_ context.Context, a activation.Signed) error {
	if last, _ := activation.Unverified(d.last); a.Previous != last.Hash() && d.last != "" {
		return activation.ErrSuperseded
	}
	d.last, d.notes[a.Hash] = a.Note, a.Note
	if d.host != nil && d.host.Activation < a.Number {
		d.host.Activation = a.Number
	}
	return d.activated()
}

func (d *database) Propose(context.Context, fleet.Candidate) error { d.proposed(); return nil }

func (d *database) Answers(context.Context, string) ([]fleet.Answer, error) {
	return []fleet.Answer{d.answer}, nil
}

func (d *database) Hosts(context.Context) ([]fleet.Host, error) {
	if d.host == nil {
		return nil, nil
	}
	return []fleet.Host{*d.host}, nil
}

// tried returns the manifests of layers that emit anything, without opening them.
func tried(_ context.Context, l registry.LineupDocument, _ []registry.LineupLayer) ([]registry.Manifest, error) {
	manifests := make([]registry.Manifest, len(l.Layers))
	for i := range manifests {
		manifests[i].Entities = []string{"domain", "email", "phone", "iban"}
	}
	return manifests, nil
}

func empty(context.Context, ...registry.LineupDocument) ([]*check.Lineup, func(), error) {
	l := check.NewLineup(0, nil, check.Bands{Review: 40, Block: 70}, nil)
	return []*check.Lineup{l, l}, func() {}, nil
}

// weighted returns a lineup of one layer.
func weighted(weight float64) registry.LineupDocument {
	return registry.LineupDocument{Bias: registry.ForAll(-4), Bands: registry.Bands{Review: 40, Block: 70},
		Layers: []registry.LineupLayer{{Layer: "mine@1.0.0", Digest: registry.Digest{1}.String(), Required: true,
			Weight: registry.ForAll(weight)}}}
}

// setting is an operator and a database in which the lineup with the weight 8 is in force.
type setting struct {
	*Operator
	db     *database
	events []Event
}

func newSetting(t *testing.T) *setting {
	t.Helper()
	key := expect.Value(activation.NewKey("operator", bytes.Repeat([]byte{1}, 32)))(t)
	trust := expect.Value(activation.ParseTrust("operator " + key.Verifier))(t)
	memory := expect.Value(lineup.OpenMemory(t.TempDir() + "/activation"))(t)
	report := expect.Value(json.Marshal(replay.Report{References: map[entity.Type]int{entity.Domain: 1},
		Types: []replay.TypeReport{{Type: "domain", Checks: 200, Verdicts: map[check.Verdict]map[check.Verdict]int{
			check.Allow: {check.Block: 3, check.Allow: 197}}}}}))(t)
	db := &database{notes: map[registry.Digest]string{}, host: &fleet.Host{ID: "host_a", Name: "a:1"},
		answer:   fleet.Answer{Host: "host_a", Progress: fleet.Ready, Report: report},
		proposed: func() {}, activated: func() error { return nil }}
	s := &setting{db: db}
	s.Operator = &Operator{Verifier: &lineup.Verifier{Records: db, Trust: trust, Memory: memory}, Storage: db,
		Key: &key, Author: "ana@test", Try: tried, Open: empty, LayerTime: time.Second,
		Observe: func(e Event) error { s.events = append(s.events, e); return nil }}
	s.activate(t, weighted(8))
	return s
}

// activate puts a lineup in force at once.
func (s *setting) activate(t *testing.T, l registry.LineupDocument) {
	t.Helper()
	stored, err := lineup.StoreLineup(t.Context(), s.db, l, registry.OriginOperator)
	if err == nil {
		_, err = s.Activate(t.Context(), lineup.Proposal{Base: s.inForce(t).Activation, Lineup: stored})
	}
	expect.NoError(t, err)
}

func (s *setting) inForce(t *testing.T) lineup.Verified {
	t.Helper()
	return expect.Value(s.Current(t.Context()))(t)
}

// A change is in force after all steps, or what was in force stays, with the reason.
func TestPut(t *testing.T) {
	t.Parallel()
	type testCase struct {
		prepare func(t *testing.T, s *setting, c *Change)
		number  int64  // of the activation that is in force afterwards
		refused string // the error
	}
	expect.Each(t, map[string]testCase{
		"without hosts":    {func(_ *testing.T, s *setting, _ *Change) { s.db.host = nil }, 2, ""},
		"within the limit": {func(_ *testing.T, _ *setting, c *Change) { c.Limit = .015 }, 2, ""},
		"beyond the limit": {func(*testing.T, *setting, *Change) {}, 1, "nothing was changed, revision 1 stays in " +
			"force: the lineup would change more than 1% of recent verdicts (domain: 3 of 200 (1.5%))"},
		"forced":                    {func(_ *testing.T, _ *setting, c *Change) { c.Forced = true }, 2, ""},
		"a canary within the limit": {func(_ *testing.T, _ *setting, c *Change) { c.Share, c.Limit = 5, .015 }, 2, ""},
		"a forced canary": {func(_ *testing.T, _ *setting, c *Change) {
			c.Share, c.Forced = 5, true
		}, 1, "more than 1% of recent verdicts"},
		"refused by a host": {func(_ *testing.T, s *setting, _ *Change) {
			s.db.answer.Progress, s.db.answer.Reason = fleet.Refused, "no memory left"
		}, 1, "nothing was changed, revision 1 stays in force: host a:1 refused: no memory left"},
		"layers that do not open": {func(_ *testing.T, s *setting, _ *Change) {
			s.Try = func(context.Context, registry.LineupDocument, []registry.LineupLayer) (
				[]registry.Manifest, error,
			) {
				return nil, errors.New("it traps")
			}
		}, 1, "nothing was changed, revision 1 stays in force: it traps"},
		"a report that is not shown": {func(_ *testing.T, s *setting, c *Change) {
			c.Forced = true
			s.Observe = func(e Event) error {
				if e.Report != nil {
					return errors.New("the pipe is closed")
				}
				return nil
			}
		}, 1, "nothing was changed, revision 1 stays in force: the pipe is closed"},
		"above a number":         {func(_ *testing.T, _ *setting, c *Change) { c.Forced, c.Above = true, 7 }, 8, ""},
		"above the one in force": {func(_ *testing.T, _ *setting, c *Change) { c.Above = 1 }, 1, "must be from 2 to "},
		"above all later ones": {func(_ *testing.T, _ *setting, c *Change) { c.Above = math.MaxInt64 - 1 }, 1,
			"must be from 2 to 9007199254740992, not "},
		"without the key": {func(_ *testing.T, s *setting, _ *Change) { s.Key = nil }, 1, ErrNoKey.Error()},
		"superseded while hosts prepare": {func(t *testing.T, s *setting, c *Change) {
			c.Forced = true
			s.db.proposed = func() { s.activate(t, weighted(9)) }
		}, 2, "nothing was changed: another activation is in force by now: 2 by ana@test"},
		"superseded while hosts prepare, and beyond the limit": {func(t *testing.T, s *setting, _ *Change) {
			s.db.proposed = func() { s.activate(t, weighted(9)) }
		}, 2, "nothing was changed: another activation is in force by now: 2 by ana@test"},
		"a commit whose reply is lost": {func(_ *testing.T, s *setting, c *Change) {
			c.Forced = true
			s.db.activated = func() error { return errors.New("the connection broke") }
		}, 2, ""},
		"a host that has moved on": {func(_ *testing.T, s *setting, c *Change) {
			c.Forced = true
			s.db.activated = func() error { s.db.host.Activation = 3; return nil }
		}, 2, "activation 2 (revision 2) is stored, but no host runs it, but not everywhere:\n" +
			"host a:1 moved on: activation 3 is in force by now"},
	}, func(t *testing.T, c testCase) {
		s := newSetting(t)
		change := Change{Base: s.inForce(t), Lineup: weighted(8.5), Limit: .01, Reason: "a test"}
		c.prepare(t, s, &change)
		done, err := s.Put(t.Context(), change)
		expect.Outcome(t, "the change", err, c.refused)
		if now := s.inForce(t); now.Number != c.number || err == nil && (done.Activation != c.number ||
			now.Reason != "a test" || (now.Canary != nil) != (change.Share != 0)) {
			t.Errorf("in force: %+v, result %+v, want activation %d", now.Activation, done, c.number)
		}
	})
}

// An operator signs only modules that are in force, signed by a publisher or built in.
func TestVouch(t *testing.T) {
	t.Parallel()
	pack := func(version string) registry.Module {
		manifest := fmt.Sprintf(`{"name":"mine","version":%q,"summary":"Mine","entities":["iban"],"facts":[],
			"signals":[],"threats":[],"budget_fuel":1000,"memory_mb":1,"default_weight":1}`, version)
		packed := expect.Value(registry.Pack([]byte("\x00asm\x01\x00\x00\x00"), []byte(manifest), nil))(t)
		return expect.Value(registry.OpenModule(packed))(t)
	}
	key := func(name string, seed byte) activation.Key {
		return expect.Value(activation.NewKey(name, bytes.Repeat([]byte{seed}, 32)))(t)
	}
	m, other := pack("1.0.0"), pack("1.0.1")
	publisher, former, hostKey := key("publisher", 2), key("former", 3), key("host", 4)
	trusted := "\npublisher " + publisher.Verifier + "\nformer " + former.Verifier + "\nhost " + hostKey.Verifier
	type testCase struct {
		by      activation.Key // who signed
		of      registry.Module
		builtIn registry.Module
		own     registry.Module // see Change
		before  registry.Module // of a layer that is no longer in force
		share   int             // of its canary; 0: it was in force
		trust   string          // more of the trust file
		refused string
	}
	expect.Each(t, map[string]testCase{
		"signed by the operator":       {by: key("operator", 1), of: m},
		"signed by a publisher":        {by: publisher, of: m},
		"built in":                     {builtIn: m},
		"not signed":                   {builtIn: other, refused: "mine@1.0.0: refused, unsigned: it has no signature"},
		"signed by a stranger":         {by: key("stranger", 5), of: m, refused: "the trust file does not list"},
		"signed by a former publisher": {by: former, of: m, refused: "the trust file lists as former"},
		"signed by a host":             {by: hostKey, of: m, refused: "a host's, which may not sign plugins"},
		"built by the operator":        {own: m, builtIn: other},
		"another was built":            {own: other, builtIn: other, refused: "unsigned"},
		"in force before":              {before: m, builtIn: other},
		"in a canary before":           {before: m, share: 5, builtIn: other},
		"another version before":       {before: other, builtIn: other, refused: "unsigned"},
		"with another's signature":     {by: publisher, of: other, refused: "its signature is that of mine@1.0.1"},
		"revoked": {by: publisher, of: m, trust: "\nrevoked " + m.Digest.String(),
			refused: "the trust file revokes mine@1.0.0"},
	}, func(t *testing.T, c testCase) {
		s := newSetting(t)
		s.Trust = expect.Value(activation.ParseTrust("operator " + s.Key.Verifier + trusted + c.trust))(t)
		s.BuiltIn = func() ([]registry.Module, error) { return []registry.Module{c.builtIn}, nil }
		s.db.published = m
		if c.of.Wasm != nil {
			s.db.signature = expect.Value(release.Sign(release.Of(c.of), c.by))(t)
		}
		layer := func(m registry.Module) registry.LineupDocument {
			l := weighted(8)
			l.Layers[0].Layer, l.Layers[0].Digest = m.Ref(), m.Digest.String()
			return l
		}
		if c.before.Wasm != nil {
			stored := expect.Value(lineup.StoreLineup(t.Context(), s.db, layer(c.before), registry.OriginOperator))(t)
			p := lineup.Proposal{Base: s.inForce(t).Activation, Lineup: stored}
			if c.share != 0 {
				p.Lineup, p.Canary = p.Base.Lineup, &activation.Canary{Lineup: stored, Share: c.share}
			}
			expect.Value(s.Activate(t.Context(), p))(t)
			s.activate(t, weighted(9))
		}
		base, next := s.inForce(t), layer(m)
		change := Change{Base: base, Lineup: next, Limit: 1}
		if c.own.Wasm != nil {
			change.Own = layer(c.own).Layers[0]
		} else {
			expect.Outcome(t, "measuring", expect.ErrorOf(s.Measure(t.Context(), base.Document, next)), c.refused)
		}
		expect.Outcome(t, "putting it in force", expect.ErrorOf(s.Put(t.Context(), change)), c.refused)
	})
}

// Who is too late gets the differences of both changes from the lineup from which both derive.
func TestConflict(t *testing.T) {
	t.Parallel()
	s := newSetting(t)
	base, own := s.inForce(t), weighted(8.5)
	own.Base = base.Hash.String()
	if err := s.CheckBase(t.Context(), own, base); err != nil || s.events != nil {
		t.Errorf("a lineup that derives from what is in force: %v, %+v", err, s.events)
	}
	s.activate(t, weighted(9))
	unknown := own
	unknown.Base = registry.Digest{7}.String()
	_, late := s.Put(t.Context(), Change{Base: base, Lineup: own, Limit: 1})
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"before":    {s.CheckBase(t.Context(), own, s.inForce(t)), "8 9, 8 8.5"},
		"meanwhile": {late, "8 9, 8 8.5"},
		"unknown":   {s.CheckBase(t.Context(), unknown, s.inForce(t)), ""},
	} {
		conflict, got := &ConflictError{}, ""
		if !errors.As(c.err, &conflict) || !errors.Is(c.err, activation.ErrSuperseded) {
			t.Errorf("%s: %v", name, c.err)
			continue
		}
		if len(conflict.Theirs) == 1 && len(conflict.Own) == 1 {
			theirs, own := conflict.Theirs[0], conflict.Own[0]
			got = theirs.From + " " + theirs.To + ", " + own.From + " " + own.To
		}
		expect.That(t, got == c.want && conflict.InForce.Number == 2 && conflict.Meanwhile == (name == "meanwhile") &&
			conflict.Unknown == (name == "unknown"), "%s: %q, want %q; %+v", name, got, c.want, conflict)
	}
	err := s.CheckBase(t.Context(), weighted(8.5), s.inForce(t))
	expect.That(t, err == nil && s.events[len(s.events)-1].NoBase == 2, "a lineup without a base: %v, %+v", err,
		s.events)
}

// A canary starts, changes and ends, and a rollback leads back to any lineup that was in force.
func TestChangesAtOnce(t *testing.T) {
	t.Parallel()
	s := newSetting(t)
	do := func(want string, change func(base activation.Activation) (Activated, error)) {
		t.Helper()
		done, err := change(s.inForce(t).Activation)
		got := done.What()
		if err != nil {
			got = err.Error()
		}
		expect.That(t, got == want, "got %q, want %q", got, want)
	}
	start := func(activation.Activation) (Activated, error) {
		return s.Put(t.Context(), Change{Base: s.inForce(t), Lineup: weighted(9), Share: 5, Limit: 1})
	}
	alter := func(c CanaryChange) func(activation.Activation) (Activated, error) {
		return func(base activation.Activation) (Activated, error) { return s.ChangeCanary(t.Context(), base, c, "") }
	}
	promote := func(base activation.Activation) (Activated, error) { return s.Promote(t.Context(), base, false, "") }
	forced := func(base activation.Activation) (Activated, error) { return s.Promote(t.Context(), base, true, "") }
	compared := func(number int64) func(activation.Activation) (Activated, error) {
		return func(base activation.Activation) (Activated, error) {
			s.db.host.Activation, s.db.host.Canary = number, "of 3 values that it scored, none differs"
			return promote(base)
		}
	}
	rollback := func(revision int64) func(activation.Activation) (Activated, error) {
		return func(base activation.Activation) (Activated, error) {
			return s.Rollback(t.Context(), base, revision, "")
		}
	}
	do("there is no canary", promote)
	do("there is no canary", alter(CanaryChange{End: true}))
	do("there is no earlier lineup", rollback(0))
	do("canary revision 2 for 5% of the accounts", start)
	do("canary revision 2 for 9% of the accounts", alter(CanaryChange{Share: 9}))
	do("revision 1", alter(CanaryChange{End: true}))
	do("canary revision 2 for 5% of the accounts", start)
	do(ErrNoEvidence.Error(), promote)
	do(ErrNoEvidence.Error(), compared(4)) // an earlier canary with the same lineup
	do("revision 2", compared(5))
	do("revision 1", rollback(0))
	s.db.host.Canary = ""
	do("canary revision 2 for 5% of the accounts", start)
	do("revision 2", forced)
	do("revision 1", rollback(0))
	do("canary revision 2 for 5% of the accounts", start)
	do("revision 2", rollback(0)) // which was in force before revision 1
	last := s.events[len(s.events)-2]
	expect.That(t, last.EndsCanary == 2, "no warning that the canary ends: %+v", last)
	do("revision 1", rollback(1))
	expect.Value(lineup.StoreLineup(t.Context(), s.db, weighted(10), registry.OriginOperator))(t)
	do("reading lineup: there is no such lineup revision", rollback(3)) // it was never in force
	do("revision 2", rollback(2))
	do("canary revision 4 for 5% of the accounts", func(activation.Activation) (Activated, error) {
		return s.Put(t.Context(), Change{Base: s.inForce(t), Lineup: weighted(11), Share: 5, Limit: 1})
	})
	do("revision 4 was only a canary: `assay lineup set` puts it in force", rollback(4))
	s.events = nil
	do("canary revision 1 for 5% of the accounts", func(activation.Activation) (Activated, error) {
		return s.Put(t.Context(), Change{Base: s.inForce(t), Lineup: weighted(8), Share: 5, Limit: 1})
	})
	expect.That(t, s.events[0].EndsCanary == 4, "no warning that another canary ends: %+v", s.events[0])
}

// What a canary becomes without its file.
func TestChangedCanary(t *testing.T) {
	t.Parallel()
	limit, own := activation.Limit(300), activation.Lineup{Revision: 2}
	canary := activation.Canary{Lineup: own, Share: 5, Limit: 100}
	got := CanaryChange{Share: 9, Limit: &limit}.of(canary)
	expect.Equal(t, "both", *got, activation.Canary{Lineup: own, Share: 9, Limit: 300})
	got = CanaryChange{End: true}.of(canary)
	expect.That(t, got == nil && canary.Share == 5, "ended: %+v", got)
}

// A lineup whose layers could together burn more fuel than a check's deadline allows brings a warning.
func TestSlowTypes(t *testing.T) {
	t.Parallel()
	const limit = 220 * time.Millisecond
	email := registry.Manifest{Entities: []string{"email"}, BudgetFuel: registry.MaxBudget}
	both := registry.Manifest{Entities: []string{"email", "phone"}, BudgetFuel: registry.MaxBudget}
	got := slowTypes([]registry.Manifest{both, both, email, email}, limit)
	expect.That(t, len(got) == 0, "200 million units: %v", got)
	got = slowTypes([]registry.Manifest{both, both, email, email, both}, limit)
	expect.That(t, len(got) == 1 && got[0] == (SlowType{"email", 250_000_000}), "250 million units: %v", got)
}
