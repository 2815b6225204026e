// Package witness cosigns the checkpoints of logs and obtains cosignatures (C2SP tlog-witness, tlog-cosignature). A
// witness signs a checkpoint only if its tree contains the one that it signed before, so a log cannot show different
// trees to different readers without being detected.
package witness

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
)

const (
	// keyAlgorithm is the signed-note type byte of Ed25519 cosignatures (C2SP tlog-cosignature).
	keyAlgorithm = 4

	timestampSize = 8
)

// Key signs cosignatures of version 1 (C2SP tlog-cosignature). It implements note.Signer.
type Key struct {
	name    string
	private ed25519.PrivateKey
	now     func() time.Time
}

// NewKey returns the key with a name, such as "witness.example/w1", and the Ed25519 key derived from seed (32 bytes).
// The name must be valid in a signed note: not empty, without spaces and plus signs.
func NewKey(name string, seed []byte, now func() time.Time) (*Key, error) {
	if name == "" || strings.ContainsAny(name, "+ \t\r\n") || len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("making a witness's key: name %q or seed of %d bytes is invalid", name, len(seed))
	}
	return &Key{name, ed25519.NewKeyFromSeed(seed), now}, nil
}

func (k *Key) public() ed25519.PublicKey { return k.private.Public().(ed25519.PublicKey) }

// Name returns the key's name in signature lines.
func (k *Key) Name() string { return k.name }

// KeyHash returns the key's hash in signature lines.
func (k *Key) KeyHash() uint32 { return keyHash(k.name, k.public()) }

// Sign returns the time (seconds since 1970, 8 bytes) and the signature of the text of a checkpoint at that time.
func (k *Key) Sign(text []byte) ([]byte, error) {
	at := k.now().Unix()
	if at < 0 {
		return nil, errors.New("cosigning: the clock is before 1970")
	}
	signature := ed25519.Sign(k.private, message(uint64(at), text))
	return append(binary.BigEndian.AppendUint64(nil, uint64(at)), signature...), nil
}

// VerifierKey returns the public key in the format of signed-note tools.
func (k *Key) VerifierKey() string {
	material := append([]byte{keyAlgorithm}, k.public()...)
	return fmt.Sprintf("%s+%08x+%s", k.name, k.KeyHash(), base64.StdEncoding.EncodeToString(material))
}

// Verifier verifies the cosignatures of one witness. It implements note.Verifier.
type Verifier struct {
	name   string
	public ed25519.PublicKey
}

// ParseVerifier parses a witness's public key, see Key.VerifierKey.
func ParseVerifier(verifierKey string) (Verifier, error) {
	bad := fmt.Errorf("%q is not the public key of a witness", verifierKey)
	parts := strings.SplitN(verifierKey, "+", 3)
	if len(parts) != 3 || parts[0] == "" || strings.ContainsAny(parts[0], " \t\r\n") {
		return Verifier{}, bad
	}
	material, err := base64.StdEncoding.Strict().DecodeString(parts[2])
	if err != nil || len(material) != 1+ed25519.PublicKeySize || material[0] != keyAlgorithm {
		return Verifier{}, bad
	}
	v := Verifier{parts[0], ed25519.PublicKey(material[1:])}
	if fmt.Sprintf("%08x", v.KeyHash()) != parts[1] {
		return Verifier{}, bad
	}
	return v, nil
}

// Name returns the key's name in signature lines.
func (v Verifier) Name() string { return v.name }

// KeyHash returns the key's hash in signature lines.
func (v Verifier) KeyHash() uint32 { return keyHash(v.name, v.public) }

// Verify reports whether signature, with its time, is the witness's for the text of a checkpoint.
func (v Verifier) Verify(text, signature []byte) bool {
	if len(signature) != timestampSize+ed25519.SignatureSize {
		return false
	}
	at := binary.BigEndian.Uint64(signature)
	return at <= math.MaxInt64 && ed25519.Verify(v.public, message(at, text), signature[timestampSize:])
}

// Signed reports whether a checkpoint has a valid signature of the witness. Signatures of others are not verified.
func (v Verifier) Signed(checkpoint string) bool {
	_, err := note.Open([]byte(checkpoint), note.VerifierList(v))
	return err == nil
}

var (
	_ note.Signer   = (*Key)(nil)
	_ note.Verifier = Verifier{}
)

func keyHash(name string, public ed25519.PublicKey) uint32 {
	sum := sha256.Sum256(append([]byte(name+"\n\x04"), public...))
	return binary.BigEndian.Uint32(sum[:])
}

// message returns the text that a cosignature signs.
func message(at uint64, text []byte) []byte {
	return fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", at, text)
}

// lineOf returns the line of a signature in a signed note.
func lineOf(s note.Signature) string { return "\u2014 " + s.Name + " " + s.Base64 + "\n" }
