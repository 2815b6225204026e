package network

import (
	"context"
	"strings"

	"assay/host/entity"
	"assay/host/facts/resolver"
)

// spf evaluates who may send mail for domain (SPF, RFC 7208). It follows one redirect, because longer chains are rare.
func (d DNS) spf(ctx context.Context, domain string) (entity.Facts, error) {
	for hop := range 2 {
		a, err := known(ctx, d.resolver, domain, resolver.TXT)
		if err != nil {
			return nil, err
		}
		verdict, redirect := readSPF(a.Policies)
		if verdict == "none" && hop > 0 {
			verdict = "invalid" // RFC 7208 section 6.1
		}
		if redirect == "" {
			return entity.Facts{"dns.spf": verdict}, nil
		}
		e, _ := entity.Parse(entity.Domain, redirect, "")
		s, public := subjectOf(e)
		if !public {
			return entity.Facts{"dns.spf": "invalid"}, nil
		}
		domain = s.host
	}
	return nil, nil
}

// readSPF returns the result of the SPF policy among texts, or the domain that it redirects to.
func readSPF(texts []string) (verdict, redirect string) {
	policy, n := "", 0
	for _, text := range texts {
		if text = strings.ToLower(text); text == "v=spf1" || strings.HasPrefix(text, "v=spf1 ") {
			policy = text
			n++
		}
	}
	switch n {
	case 0:
		return "none", ""
	case 1:
	default:
		return "invalid", "" // RFC 7208 section 4.5
	}
	others := false
	for _, term := range strings.Fields(policy)[1:] {
		qualifier, mechanism := byte('+'), term
		if strings.IndexByte("+-~?", term[0]) >= 0 {
			qualifier, mechanism = term[0], term[1:]
		}
		switch {
		case mechanism == "all":
			switch {
			case qualifier == '+':
				return "pass_all", ""
			case qualifier == '-' && !others:
				return "nobody", ""
			case qualifier == '-':
				return "fail", ""
			case qualifier == '~':
				return "softfail", ""
			}
			return "neutral", ""
		case qualifier == '+' && strings.HasPrefix(mechanism, "ip4:") && strings.HasSuffix(mechanism, "/0"):
			return "pass_all", ""
		case strings.HasPrefix(mechanism, "redirect="):
			redirect = strings.TrimPrefix(mechanism, "redirect=")
		case !strings.Contains(mechanism, "="): // a mechanism; unknown modifiers are ignored (RFC 7208 section 6)
			others = true
		}
	}
	if strings.Contains(redirect, "%") {
		redirect = "" // a macro can only be expanded for a message
	}
	return "neutral", redirect
}

// dmarc returns how domain wants receivers to treat forged mail (DMARC, RFC 7489): by its own policy, or otherwise by
// the registrable domain's.
func (d DNS) dmarc(ctx context.Context, domain, registrable string) (entity.Facts, error) {
	type answer struct {
		resolver.Answer
		err error
	}
	ask := func(name string) <-chan answer {
		out := make(chan answer, 1)
		go func() {
			a, err := known(ctx, d.resolver, "_dmarc."+name, resolver.TXT)
			out <- answer{a, err}
		}()
		return out
	}
	own := ask(domain)
	var parent <-chan answer
	if registrable != "" && registrable != domain {
		parent = ask(registrable)
	}
	a := <-own
	if a.err != nil {
		return nil, a.err
	}
	verdict := readDMARC(a.Policies, "p")
	if verdict == "none" && parent != nil {
		if a = <-parent; a.err != nil {
			return nil, a.err
		}
		verdict = readDMARC(a.Policies, "sp", "p")
	}
	return entity.Facts{"dns.dmarc": verdict}, nil
}

// readDMARC returns what the DMARC policy among texts requests: the value of the first of tags that the policy has.
func readDMARC(texts []string, tags ...string) string {
	policy, n := "", 0
	for _, text := range texts {
		if first, _, _ := strings.Cut(text, ";"); strings.EqualFold(strings.TrimSpace(first), "v=dmarc1") {
			policy = text
			n++
		}
	}
	if n != 1 { // several policies count as none (RFC 7489 section 6.6.3)
		return "none"
	}
	values := map[string]string{}
	for part := range strings.SplitSeq(policy, ";") {
		tag, value, _ := strings.Cut(part, "=")
		tag = strings.ToLower(strings.TrimSpace(tag))
		if _, repeated := values[tag]; !repeated {
			values[tag] = strings.ToLower(strings.TrimSpace(value))
		}
	}
	for _, tag := range tags {
		switch values[tag] {
		case "none":
			return "monitor"
		case "quarantine", "reject":
			return values[tag]
		}
	}
	return "invalid"
}
