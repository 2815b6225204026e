package registry

import "fmt"

// Reason says in a word or two why a plugin is refused.
type Reason string

// The reasons to refuse a plugin that somebody else built.
const (
	Unsigned       Reason = "unsigned"
	UntrustedKey   Reason = "untrusted key"
	RevokedKey     Reason = "revoked key"
	RevokedPlugin  Reason = "revoked plugin"
	Altered        Reason = "altered"
	Swapped        Reason = "swapped"      // the signature belongs to another plugin
	OtherName      Reason = "other name"   // two places name it or its version differently
	OtherOwner     Reason = "other owner"  // the name belongs to somebody else
	Downgraded     Reason = "downgraded"   // older than what is published
	Truncated      Reason = "truncated"    // shorter than announced
	Oversized      Reason = "oversized"    // larger than permitted or announced
	WrongMediaType Reason = "other format" // the registry's content is not a plugin
)

// Refusal is the error for a plugin that is not accepted.
type Refusal struct {
	Reason Reason
	Detail string
}

// Refuse returns a Refusal.
func Refuse(reason Reason, format string, args ...any) error {
	return &Refusal{reason, fmt.Sprintf(format, args...)}
}

func (r *Refusal) Error() string { return "refused, " + string(r.Reason) + ": " + r.Detail }
