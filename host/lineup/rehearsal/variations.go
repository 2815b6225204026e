package rehearsal

import (
	"maps"
	"strings"

	"assay/host/entity"
	"assay/registry"
)

// Variation is a case's value as others may send it.
type Variation struct {
	Subject

	How string // what was changed
}

// maxVariations bounds the variations of a layer's cases.
const maxVariations = 500

// Variations returns variations of the values and facts of a layer's own cases: the longest names and labels, other
// scripts, punycode, quotation marks and invisible characters. The layer may score them as it likes, but none may make
// it fail.
func Variations(cases []registry.Case) (all []Variation) {
	seen := map[string]bool{}
	for _, c := range cases {
		e, err := entity.Parse(entity.Type(c.Type), c.Value, c.Country)
		if err != nil {
			continue
		}
		for _, v := range varied(e) {
			if _, err := entity.Parse(e.Type, v[1], c.Country); err == nil && !seen[v[1]] {
				seen[v[1]] = true
				all = append(all, Variation{Subject{e.Type, v[1], c.Country, c.Facts}, v[0]})
			}
		}
		long, odd := maps.Clone(c.Facts), maps.Clone(c.Facts)
		for name, fact := range c.Facts {
			if strings.ContainsAny(fact, "abcdefghijklmnopqrstuvwxyz") && !strings.HasPrefix(name, "config.") {
				long[name] = strings.ToValidUTF8(strings.Repeat(fact+" ", 1+254/len(fact))[:253], "")
				odd[name] = "“\u202e" + fact + "\"'\u2800\u200d長” :"
			}
		}
		if key := "facts " + c.Value; !maps.Equal(long, c.Facts) && !seen[key] {
			seen[key] = true
			all = append(all, Variation{Subject{e.Type, c.Value, c.Country, long}, "long facts"},
				Variation{Subject{e.Type, c.Value, c.Country, odd}, "odd facts"})
		}
	}
	if len(all) <= maxVariations {
		return all
	}
	some := make([]Variation, maxVariations) // spread over the cases
	for i := range some {
		some[i] = all[i*len(all)/maxVariations]
	}
	return some
}

// varied returns variations of an entity: what was changed, and the value.
func varied(e entity.Entity) [][2]string {
	switch e.Type {
	case entity.Domain:
		return variedNames(e, 253)
	case entity.Email:
		return variedAddresses(e)
	case entity.Phone:
		return [][2]string{{"a digit more", e.Value + "0"}, {"a digit less", e.Value[:len(e.Value)-1]},
			{"the most digits", (e.Value + "123456789012345")[:16]}}
	}
	return [][2]string{{"the greatest length", e.Value + strings.Repeat("A0", 17)[:max(0, 34-len(e.Value))]},
		{"an unknown country", "XX" + e.Value[2:]},
		{"letters for digits", e.Value[:4] + strings.Repeat("Z", len(e.Value)-4)}}
}

// variedNames varies a domain within a number of bytes: what was changed, and the name.
func variedNames(e entity.Entity, most int) [][2]string {
	name, registrable := e.Facts["domain.ascii"], e.Facts["domain.registrable"]
	room := max(0, most-len(name))
	before := func(labels string, times int) string {
		return strings.Repeat(labels+".", min(times, room/(len(labels)+1))) + name
	}
	label := strings.Repeat("a1b", 21)
	rest := label[:max(0, room%64-1)] + "."
	all := [][2]string{
		{"the longest name", strings.TrimLeft(rest, ".") + before(label, 4)},
		{"the most labels", before("a", 126)},
		{"other scripts", "пример.例え.ßρı-bücher." + name},
		{"the longest punycode", before("xn--j50i"+strings.Repeat("a", 53), 3)}, // 54 times U+20000
	}
	if sub, found := strings.CutSuffix(name, "."+registrable); found && registrable != "" {
		all = append(all, [2]string{"its labels repeated", before(sub, 253)})
	}
	if label, suffix, found := strings.Cut(registrable, "."); found {
		long := strings.Repeat(label, 1+63/len(label))[:63]
		all = append(all, [2]string{"the longest label", strings.TrimRight(long, "-") + "." + suffix})
	}
	return all
}

// variedAddresses varies an email address like its domain, and its local part.
func variedAddresses(e entity.Entity) (all [][2]string) {
	local, domain := e.Facts["email.local"], e.Facts["domain.ascii"]
	for _, v := range variedNames(e, 253-len(local)) {
		all = append(all, [2]string{v[0], local + "@" + v[1]})
	}
	return append(all, [2]string{"the longest local part", strings.Repeat(local, 1+64/len(local))[:64] + "@" + domain},
		[2]string{"the longest tag", local + "+" + strings.Repeat("long", 16)[:max(0, 63-len(local))] + "@" + domain},
		[2]string{"quotation marks", `"“a” \"b\" :)"@` + domain}, [2]string{"another script", "пример.例え.ß@" + domain})
}
