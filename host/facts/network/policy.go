package network

import (
	"context"
	"strings"

	"assay/host/entity"
	"assay/host/facts/resolver"
)

// senders reads who may send mail as domain (SPF, RFC 7208). A redirection is followed once: more are rare.
func (d DNS) senders(ctx context.Context, domain string) (entity.Facts, error) {
	for hop := range 2 {
		a, err := d.Resolver.Ask(ctx, resolver.Question{Name: domain, Kind: resolver.TXT})
		if err != nil || a.Status == resolver.ServFail {
			return nil, err
		}
		verdict, redirect := readSPF(a.Policies)
		if verdict == "none" && hop > 0 {
			verdict = "invalid" // RFC 7208 section 6.1
		}
		if redirect == "" {
			return entity.Facts{"dns.spf": verdict}, nil
		}
		domain = redirect
	}
	return nil, nil
}

// readSPF returns what the policy among texts says, or the domain whose policy holds in its place.
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
		case !strings.Contains(mechanism, "="): // not a modifier, of which unknown ones do nothing
			others = true
		}
	}
	if strings.Contains(redirect, "%") {
		redirect = "" // a macro, which needs a message to stand for something
	}
	return "neutral", redirect
}

// forgeries reads what domain asks of those who receive forged mail (DMARC, RFC 7489): its own policy, else that of the
// registrable domain.
func (d DNS) forgeries(ctx context.Context, domain, registrable string) (entity.Facts, error) {
	type answered struct {
		resolver.Answer
		err error
	}
	ask := func(name string) <-chan answered {
		out := make(chan answered, 1)
		go func() {
			a, err := d.Resolver.Ask(ctx, resolver.Question{Name: "_dmarc." + name, Kind: resolver.TXT})
			out <- answered{a, err}
		}()
		return out
	}
	own := ask(domain)
	var above <-chan answered
	if registrable != "" && registrable != domain {
		above = ask(registrable)
	}
	a := <-own
	if a.err != nil || a.Status == resolver.ServFail {
		return nil, a.err
	}
	verdict := readDMARC(a.Policies, "p")
	if verdict == "none" && above != nil {
		if a = <-above; a.err != nil || a.Status == resolver.ServFail {
			return nil, a.err
		}
		verdict = readDMARC(a.Policies, "sp", "p")
	}
	return entity.Facts{"dns.dmarc": verdict}, nil
}

// readDMARC returns what the policy among texts asks for, by the first of tags that it has.
func readDMARC(texts []string, tags ...string) string {
	policy, n := "", 0
	for _, text := range texts {
		if first, _, _ := strings.Cut(text, ";"); strings.EqualFold(strings.TrimSpace(first), "v=dmarc1") {
			policy = text
			n++
		}
	}
	if n != 1 { // several are as good as none (RFC 7489 section 6.6.3)
		return "none"
	}
	said := map[string]string{}
	for part := range strings.SplitSeq(policy, ";") {
		tag, value, _ := strings.Cut(part, "=")
		tag = strings.ToLower(strings.TrimSpace(tag))
		if _, twice := said[tag]; !twice {
			said[tag] = strings.ToLower(strings.TrimSpace(value))
		}
	}
	for _, tag := range tags {
		switch said[tag] {
		case "none":
			return "monitor"
		case "quarantine", "reject":
			return said[tag]
		}
	}
	return "invalid"
}
