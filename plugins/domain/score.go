package main

import (
	"unicode/utf8"

	"assay/plugins/internal/brand"
	"assay/plugins/internal/mail"
	"assay/plugins/internal/suffix"
	"assay/plugins/internal/wordlist"
	"assay/sdk"
)

// host is the name to score.
type host struct {
	suffix.Host
	customer bool // a customer of a brand chooses the content, see brand.IsCustomer
}

// Score scores the name of a domain, or of the mail domain of an email address, from its parsed parts.
func Score(c *sdk.Check) sdk.Outcome {
	read, ok := suffix.Read(c)
	if !ok {
		return sdk.Abstained
	}
	h := host{read, brand.IsCustomer(&read)}
	best := findImitation(&h)
	if best.code != noCode {
		b, relation := best.owner(&h)
		switch {
		case relation == brand.Owned && b.Kind() == brand.Site:
			return sdk.Scored
		case relation == brand.Owned:
			w := startText(codeOfficial, b.Name)
			w.signal(c, 0, codeOfficial)
			return sdk.Scored
		case relation == brand.Plausible && (!best.match.hasStrongBait() || best.match.namesBank(&h)):
			best = finding{}
		}
	}
	if best.points > 0 && !h.Private && suffix.Restricted(h.Suffix) {
		w := startText(codeRestricted, "")
		w.quote("." + h.Suffix)
		w.signal(c, 0, codeRestricted)
		return sdk.Scored
	}
	if best.code == codeInside && best.points > hintPoints && c.Has(sdk.EmailDomain) {
		best.points = hintPoints // as in allianzgroup.com
	}
	if best.points > 0 && !best.isMailSlip(c) {
		best.signal(c, &h)
	}
	if c.Get(sdk.DomainSuffixKind) == "unlisted" {
		signalUnknownSuffix(c, h.Suffix)
	}
	if part := governmentIn(&h); part != "" && best.points < reviewPoints {
		w := startText(codeGovernment, "")
		w.quote(part)
		w.signal(c, reviewPoints, codeGovernment)
	}
	scoreScripts(c, &h, best.code == codeHomograph)
	return sdk.Scored
}

// isMailSlip reports whether f is a mistyped mailbox provider in an email address, which the email layer reports.
func (f *finding) isMailSlip(c *sdk.Check) bool {
	return (f.code == codeTypo || f.code == codeSuffixTypo || f.code == codeElsewhere || f.code == codeHyphen) &&
		c.Has(sdk.EmailDomain) && wordlist.Has(mail.Popular, f.match.Key) && !f.match.hasStrongBait()
}

// knownSuffixes are the suffixes that the text can suggest for an unknown one.
var knownSuffixes = [...]string{"com", "net", "org", "info", "edu", "gov"}

// signalUnknownSuffix says that nobody can register names under suffix, such as con, or invalid, which RFC 6761
// reserves, and which suffix was meant.
func signalUnknownSuffix(c *sdk.Check, suffix string) {
	w := startText(codeUnknownSuffix, "")
	w.quote("." + suffix)
	for _, known := range knownSuffixes {
		if distance([]byte(suffix), known, 1) <= 1 {
			w.write(", perhaps ")
			w.quote("." + known)
			break
		}
	}
	w.signal(c, reviewPoints, codeUnknownSuffix)
}

// owner returns the brand or site that h is most closely related to, and the relation.
func (f *finding) owner(h *host) (*brand.Brand, brand.Relation) {
	switch {
	case f.ownedBy != nil:
		return f.ownedBy, brand.Owned
	case h.customer:
		return nil, brand.Unrelated
	}
	if f.match.number < brand.Count() {
		return brand.Lookup(&h.Host, f.match.number)
	}
	if f.match.RelationTo(&h.Host) == brand.Owned {
		return f.match.Brand, brand.Owned
	}
	return brand.Lookup(&h.Host, brand.Count())
}

// signal raises the finding's signal.
func (f *finding) signal(c *sdk.Check, h *host) {
	m := &f.match
	w := startText(f.code, describeBrand(m.Brand))
	switch f.code {
	case codeHomograph, codeLookalike, codeTypo, codeTypos, codeSimilar:
		switch {
		case m.form == misspelled && m.edits == 1:
			w.typo(&m.typo)
		case m.form == misspelled:
			w.quote(m.written())
		default:
			w.difference(m)
		}
		if (f.code == codeHomograph || f.code == codeLookalike) && m.hasStrongBait() {
			w.baitWords(", next to ", m)
		}
	case codeHyphen:
		w.quote(m.written())
	case codeMissingDot, codeSiteMissingDot, codeBeside:
		w.quote(m.label)
	case codeBaitWords, codeCombined:
		w.baitWords("", m)
	case codeAddressInside, codeSubdomain, codeSuffixTypo, codeElsewhere, codeSuffix:
		w.quote(h.Registrable)
	}
	w.signal(c, f.points, f.code)
	if points := f.baitPoints(); points > 0 {
		w := startText(codeBait, describeBrand(m.Brand))
		w.baitWords("", m)
		w.signal(c, points, codeBait)
	}
}

// describeBrand returns the brand's name, with the key in front if the name does not spell it, as in "steamcommunity
// (Steam)".
func describeBrand(b *brand.Brand) string {
	letters := 0
	for _, r := range b.Name {
		if r >= utf8.RuneSelf {
			return b.Name // spelled with letters that the key replaces
		}
		if c := toLower(byte(r)); letters < len(b.Key) && c == b.Key[letters] {
			letters++
		}
	}
	if letters == len(b.Key) {
		return b.Name
	}
	return b.Key + " (" + b.Name + ")"
}

func toLower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
