package audit

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"time"

	"golang.org/x/mod/sumdb/note"

	"assay/registry/fault"
)

// Signer signs for an installation, each time with the key that its statements prescribe for that time. It is safe for
// concurrent use once it holds its keys. As a note.Signer, it signs with the first key.
type Signer struct {
	Public
	Now  func() time.Time // nil: time.Now
	held []heldKey
}

// heldKey is a private key, or a function that signs with one that is kept elsewhere.
type heldKey struct {
	public ed25519.PublicKey
	sign   func(msg []byte) ([]byte, error)
}

var _ note.Signer = (*Signer)(nil)

// ErrKeyElsewhere means that the signer does not hold the key that signs now.
var ErrKeyElsewhere = errors.New("this host does not have the key that signs now: copy the secret file of another " +
	"host here, set ASSAY_CHECKPOINT_KEY or ASSAY_CHECKPOINT_COMMAND as there, and restart")

// NewSigner returns a signer for the logs named by the Ed25519 key that is derived from seed (32 bytes). Its anchors
// have the given name, such as "assay.example/audit".
func NewSigner(name string, seed []byte) *Signer {
	s := &Signer{}
	s.Public = Public{name: name, key: s.Hold(seed), later: new(pointer)}
	return s
}

// Hold adds the private key derived from seed (32 bytes), and returns its public key.
func (s *Signer) Hold(seed []byte) ed25519.PublicKey {
	private := ed25519.NewKeyFromSeed(seed)
	public := private.Public().(ed25519.PublicKey)
	s.HoldElsewhere(public, func(msg []byte) ([]byte, error) { return ed25519.Sign(private, msg), nil })
	return public
}

// HoldElsewhere adds a key that is kept elsewhere, with which the function sign signs.
func (s *Signer) HoldElsewhere(public ed25519.PublicKey, sign func(msg []byte) ([]byte, error)) {
	s.held = append(s.held, heldKey{public, sign})
}

// Learn adds the keys that statements introduce, see Public.With.
func (s *Signer) Learn(statements []string) error {
	next, err := s.With(statements)
	if err == nil {
		s.later.Store(next.later.Load())
	}
	return err
}

// Sign returns the first key's signature of msg.
func (s *Signer) Sign(msg []byte) ([]byte, error) { return s.held[0].sign(msg) }

// Ready returns ErrKeyElsewhere if the signer does not hold the keys that sign now for some uses.
func (s *Signer) Ready(uses Use) error {
	for _, use := range []Use{Records, Checkpoints} {
		if uses&use == 0 {
			continue
		}
		if _, err := s.current(use); err != nil {
			return err
		}
	}
	return nil
}

// current returns the key that signs now for a use.
func (s *Signer) current(use Use) (heldKey, error) {
	now := time.Now
	if s.Now != nil {
		now = s.Now
	}
	var key ed25519.PublicKey
	for _, t := range s.terms(use) {
		if !now().Before(t.from) {
			key = t.key
		}
	}
	return s.holds(key)
}

func (s *Signer) holds(key ed25519.PublicKey) (heldKey, error) {
	for _, h := range s.held {
		if h.public.Equal(key) {
			return h, nil
		}
	}
	return heldKey{}, ErrKeyElsewhere
}

// concluding adds to an error what failed. Call it with defer.
func concluding(doing string, err *error) { fault.WrapAll(err, "%s", doing) }

// signNote signs a text under a name. what describes the text in errors.
func (s *Signer) signNote(what, text, name string, use Use) (signed string, err error) {
	defer concluding("signing "+what, &err)
	key, err := s.current(use)
	if err != nil {
		return "", err
	}
	bytes, err := note.Sign(&note.Note{Text: text}, named{key, name})
	return string(bytes), err
}

// CheckpointKey returns the newest key for checkpoints, which signs the next statement.
func (s *Signer) CheckpointKey() ed25519.PublicKey {
	terms := s.terms(Checkpoints)
	return terms[len(terms)-1].key
}

// Missing returns the keys for checkpoints that the signer does not hold.
func (s *Signer) Missing() (keys []ed25519.PublicKey) {
	for _, t := range s.terms(Checkpoints) {
		if _, err := s.holds(t.key); err != nil {
			keys = append(keys, t.key)
		}
	}
	return keys
}

// IsForCheckpointKey reports whether a text is of a kind that a key for checkpoints signs: a checkpoint, an anchor or a
// statement that introduces a key.
func IsForCheckpointKey(text []byte) bool {
	return bytes.HasPrefix(text, []byte("assay/")) || bytes.HasPrefix(text, []byte(statementLine+"\n"))
}

// CanIntroduce returns ErrKeyElsewhere if the signer does not hold the key that signs the next statement.
func (s *Signer) CanIntroduce() error { return s.HoldsNewest(Checkpoints) }

// HoldsNewest returns ErrKeyElsewhere if the signer does not hold the newest key for a use, which may not sign yet.
func (s *Signer) HoldsNewest(use Use) error {
	terms := s.terms(use)
	_, err := s.holds(terms[len(terms)-1].key)
	return err
}

// Introduce signs and learns the statement that the given key signs from a time on. The signer must hold the key.
func (s *Signer) Introduce(key ed25519.PublicKey, uses Use, from time.Time) (signed string, err error) {
	defer concluding("introducing a key", &err)
	before, err := s.holds(s.CheckpointKey())
	var next heldKey
	if err == nil {
		next, err = s.holds(key)
	}
	var text []byte
	if err == nil {
		statement := Statement{len(s.introductions()) + 2, uses, key, from.UTC().Truncate(time.Second)}
		text, err = note.Sign(&note.Note{Text: statement.text(s.installation())}, named{before, s.installation()},
			named{next, s.installation()})
	}
	if err == nil {
		err = s.Learn([]string{string(text)})
	}
	return string(text), err
}

// named is a key under a name. It implements note.Signer.
type named struct {
	heldKey
	name string
}

// Name implements note.Signer.
func (n named) Name() string { return n.name }

// KeyHash implements note.Signer.
func (n named) KeyHash() uint32 { return keyHash(n.name, n.public) }

// Sign implements note.Signer.
func (n named) Sign(msg []byte) ([]byte, error) { return n.sign(msg) }
