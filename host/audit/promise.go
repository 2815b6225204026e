package audit

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Promise is a signed statement that a leaf will be at a place in a chain's tree by a time, like a signed certificate
// timestamp in Certificate Transparency (RFC 6962, section 3.2).
type Promise struct {
	Chain int
	Index int64 // of the leaf
	Leaf  Hash
	Until time.Time // in whole seconds

	Replaced time.Time // when the key that signed it was replaced, see Late; zero: it was not
}

// promiseLine is the first line of a promise. No checkpoint or anchor, which the same key signs, begins with it.
const promiseLine = "assay promise, version 1"

// SignPromise signs a promise as a C2SP signed note. The same promise always gives the same text.
func (s *Signer) SignPromise(p Promise) (string, error) {
	text := fmt.Sprintf("%s\n%s\n%d\n%s\n%s\n", promiseLine, s.Origin(p.Chain), p.Index,
		base64.StdEncoding.EncodeToString(p.Leaf[:]), p.Until.UTC().Format(time.RFC3339))
	return s.signNote("promise", text, s.Origin(p.Chain), Records)
}

// OpenPromise verifies a promise that SignPromise signed.
func (p Public) OpenPromise(signed string) (promise Promise, err error) {
	defer concluding("opening promise", &err)
	lines := strings.SplitN(signed, "\n", 7)
	bad := fmt.Errorf("%.200q is not a promise of this installation", signed)
	if len(lines) < 7 || lines[0] != promiseLine || lines[5] != "" {
		return promise, bad
	}
	_, number, _ := strings.Cut(lines[1], "/chain/")
	if promise.Chain, err = strconv.Atoi(number); err != nil || p.Origin(promise.Chain) != lines[1] {
		return promise, bad
	}
	_, by, err := p.open(signed, lines[1], Records)
	if err != nil {
		return promise, err
	}
	promise.Replaced = by.until
	var wrong [3]error
	promise.Index, wrong[0] = ParseSize(lines[2])
	promise.Leaf, wrong[1] = ParseHash(lines[3])
	promise.Until, wrong[2] = time.Parse(time.RFC3339, lines[4])
	if errors.Join(wrong[:]...) != nil {
		return promise, bad
	}
	return promise, nil
}
