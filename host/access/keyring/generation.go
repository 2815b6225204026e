package keyring

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"assay/host/internal/durable"
	"assay/host/internal/private"
	"assay/registry/fault"
)

// Generation is a master secret and the keys derived from it for signing and encrypting. From a given time, it replaces
// the previous generation; hosts with both in their files can still read values encrypted under either.
type Generation struct {
	Number     int       // 1 for the first
	From       time.Time // zero for the first
	Prefix     []byte    // of values encrypted under it: 4 bytes; none for the first
	SignSeed   []byte    // Ed25519 seed of the audit log's key
	Activation []byte    // Ed25519 seed of the key with which hosts sign activations

	ciphers [ciphers]cipher.AEAD
	answer  []byte // HMAC key from which each kept answer's own key is derived
}

// The ciphers of a generation.
const (
	sealCipher = iota
	nodeCipher
	graphCipher
	ciphers
)

// line is a line of a secret file.
type line struct {
	number int
	secret []byte
	from   time.Time
}

// parse parses a secret file: the first master secret, then lines of a number, a secret and a time (RFC 3339). Errors
// do not contain the text.
func parse(text string) (lines []line, err error) {
	bad := fmt.Errorf("it does not contain %d bytes in base64", masterBytes)
	for i, fields := range slices.Collect(fieldsOf(text)) {
		l := line{number: 1}
		encoded := fields[0]
		if i > 0 {
			bad = fmt.Errorf("line %d is not a number, %d bytes in base64 and a time", i+1, masterBytes)
			if len(fields) != 3 {
				return nil, bad
			}
			encoded = fields[1]
			l.number, err = strconv.Atoi(fields[0])
			if err == nil {
				l.from, err = time.Parse(time.RFC3339, fields[2])
			}
			if last := lines[i-1]; err != nil || l.number <= last.number || l.from.Before(last.from) {
				return nil, bad
			}
		} else if len(fields) != 1 {
			return nil, bad
		}
		if l.secret, err = base64.StdEncoding.DecodeString(encoded); err != nil || len(l.secret) != masterBytes {
			return nil, bad
		}
		lines = append(lines, l)
	}
	if len(lines) == 0 {
		return nil, bad
	}
	return lines, nil
}

// fieldsOf yields the fields of each line that is not empty.
func fieldsOf(text string) func(yield func([]string) bool) {
	return func(yield func([]string) bool) {
		for l := range strings.Lines(text) {
			if fields := strings.Fields(l); len(fields) > 0 && !yield(fields) {
				return
			}
		}
	}
}

// add derives the keys of a generation.
func (r *Ring) add(l line) error {
	var err error
	key := func(purpose string, length int) []byte {
		k, e := hkdf.Key(sha256.New, l.secret, nil, "assay/v1/"+purpose, length)
		err = errors.Join(err, e)
		return k
	}
	g := Generation{Number: l.number, From: l.from, SignSeed: key("sign", 32), Activation: key("activation", 32),
		answer: key("sealed answer", 32)}
	if l.number > 1 {
		g.Prefix = key("prefix", 4)
	}
	for i, purpose := range [ciphers]string{"seal", "node", "contribution"} {
		block, e := aes.NewCipher(key(purpose, 32))
		if e == nil {
			g.ciphers[i], e = cipher.NewGCMWithRandomNonce(block)
		}
		err = errors.Join(err, e)
	}
	r.generations = append(r.generations, g)
	return err
}

// Generations returns the generations in the secret file, oldest first.
func (r *Ring) Generations() []Generation { return r.generations }

// Current returns the generation that is in use now.
func (r *Ring) Current() Generation {
	current := r.generations[0]
	if len(r.generations) == 1 {
		return current
	}
	now := time.Now
	if r.Now != nil {
		now = r.Now
	}
	at := now()
	for _, g := range r.generations {
		if !at.Before(g.From) {
			current = g
		}
	}
	return current
}

// seal encrypts a value under the generation in use.
func (r *Ring) seal(which int, plain []byte, context string) []byte {
	g := r.Current()
	return g.ciphers[which].Seal(bytes.Clone(g.Prefix), nil, plain, []byte(context))
}

// open decrypts a value that seal encrypted. what describes the value in errors.
func (r *Ring) open(which int, what string, sealed []byte, context string) (plain []byte, err error) {
	err = r.try(sealed, func(g Generation, sealed []byte) (err error) {
		plain, err = g.ciphers[which].Open(nil, nil, sealed, []byte(context))
		return err
	})
	return plain, fault.Wrap(err, "opening sealed %s", what)
}

// try calls open with the generation that matches the value's prefix, and with the rest of the value. If that fails, it
// tries the first generation, whose values have no prefix and may begin with any bytes.
func (r *Ring) try(sealed []byte, open func(g Generation, sealed []byte) error) error {
	for _, g := range r.generations[1:] {
		if rest, ok := bytes.CutPrefix(sealed, g.Prefix); ok && open(g, rest) == nil {
			return nil
		}
	}
	return open(r.generations[0], sealed)
}

// AddGeneration durably adds a new master secret to the secret file. From the given time on, it replaces the others for
// signing and encrypting. The time must not be before that of the last line.
func AddGeneration(path string, from time.Time) error {
	return edit(path, func(lines []line) ([]line, error) {
		fresh := make([]byte, masterBytes)
		rand.Read(fresh)
		return append(lines, line{lines[len(lines)-1].number + 1, fresh, from}), nil
	})
}

// RemoveGeneration durably removes a generation from the secret file. It cannot remove the first, whose keys are needed
// to find stored data, or the last.
func RemoveGeneration(path string, number int) error {
	return edit(path, func(lines []line) ([]line, error) {
		i := slices.IndexFunc(lines, func(l line) bool { return l.number == number })
		switch {
		case i < 0:
			return nil, fmt.Errorf("there is no generation %d", number)
		case i == 0:
			return nil, errors.New("the first generation cannot be removed: pseudonyms and the reputation graph " +
				"depend on it")
		case i == len(lines)-1:
			return nil, errors.New("the last generation cannot be removed")
		}
		return slices.Delete(lines, i, i+1), nil
	})
}

// edit replaces the lines of a secret file.
func edit(path string, change func([]line) ([]line, error)) (err error) {
	defer fault.WrapAll(&err, "changing secret file")
	text, err := private.Read(path)
	if err != nil {
		return err
	}
	lines, err := parse(string(text))
	if err == nil {
		lines, err = change(lines)
	}
	if err != nil {
		return err
	}
	var b strings.Builder
	for i, l := range lines {
		encoded := base64.StdEncoding.EncodeToString(l.secret)
		if i == 0 {
			fmt.Fprintln(&b, encoded)
			continue
		}
		fmt.Fprintf(&b, "%d %s %s\n", l.number, encoded, l.from.UTC().Format(time.RFC3339))
	}
	if _, err := parse(b.String()); err != nil {
		return fmt.Errorf("the time is before that of the last generation: %w", err)
	}
	return ReplaceFile(path, []byte(b.String()))
}

// ReplaceFile atomically and durably replaces a file, which keeps its mode.
func ReplaceFile(path string, text []byte) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	return durable.WriteFile(path, text)
}
