package feed

import (
	"bufio"
	"errors"
	"strings"
	"time"

	"assay/host/entity"
)

// stixPaths are the object paths of STIX 2.1 that name an entity (STIX 2.1 part 6).
var stixPaths = map[string]entity.Type{
	"domain-name:value": entity.Domain, "url:value": entity.Domain, "email-addr:value": entity.Email,
	"email-message:from_ref.value": entity.Email, "email-message:sender_ref.value": entity.Email,
}

// readSTIX reads the indicators of bundles. Those revoked or past their valid_until are passed over, and those of other
// things: files, IP addresses, several observations together.
func readSTIX(in *bufio.Reader, o Options, take func(item) error) error {
	number := int64(0)
	return walk(in, func(string, string) error { return nil }, func(ob object) error {
		if ob["type"] != "indicator" {
			return nil
		}
		number++
		ended := ob["revoked"] == "true"
		if until, err := time.Parse(time.RFC3339Nano, ob["valid_until"]); err == nil && !until.After(o.Now()) {
			ended = true
		}
		i := item{line: number, text: ob["pattern"], category: ob["indicator_types[]"] + "," + ob["labels[]"] + "," +
			ob["name"], skip: ended}
		// another language, of which none is about single names
		if kind := ob["pattern_type"]; kind != "" && kind != "stix" {
			i.skip = true
			return take(i)
		}
		named, err := readPattern(ob["pattern"])
		switch {
		case errors.Is(err, errElse):
			i.skip = true
			return take(i)
		case err != nil:
			i.reason = err.Error()
			return take(i)
		}
		for _, one := range named {
			i.kind, i.text = one.kind, one.text
			if err := take(i); err != nil {
				return err
			}
		}
		return nil
	})
}

var (
	errPattern = errors.New("has a pattern that cannot be read")
	errElse    = errors.New("has a pattern that names no single domain, URL or email address")
)

// readPattern reads a pattern (STIX 2.1 part 9) that is one or more comparisons of equality joined by OR, each of which
// alone is the indicator. What needs more than one observation says nothing of a single entity. Errors: errPattern,
// errElse.
func readPattern(pattern string) ([]item, error) {
	var found []item
	words := patternWords(pattern)
	for i := 0; i < len(words); i++ {
		switch word := words[i]; strings.ToUpper(word.text) {
		case "[", "]", "(", ")", "OR":
			continue
		case "AND", "FOLLOWEDBY", "NOT", "WITHIN", "REPEATS", "START":
			return nil, errElse
		default:
			kind, ok := stixPaths[word.text]
			if word.quoted || !strings.Contains(word.text, ":") || i+2 >= len(words) {
				return nil, errPattern
			}
			operator := strings.ToUpper(words[i+1].text)
			i += 2
			switch {
			case operator == "=" && words[i].quoted:
				if ok {
					found = append(found, item{kind: kind, text: words[i].text})
				}
			case operator == "IN" && words[i].text == "(":
				for i++; i < len(words) && words[i].text != ")"; i++ {
					if ok && words[i].quoted {
						found = append(found, item{kind: kind, text: words[i].text})
					}
				}
			default: // another comparison, or with no text
				return nil, errElse
			}
		}
	}
	switch {
	case len(words) == 0:
		return nil, errPattern
	case len(found) == 0:
		return nil, errElse
	}
	return found, nil
}

type patternWord struct {
	text   string
	quoted bool
}

// patternWords splits a pattern into brackets, quoted strings and words.
func patternWords(pattern string) []patternWord {
	var words []patternWord
	for i := 0; i < len(pattern); {
		c := pattern[i]
		switch {
		case strings.IndexByte(" \t\r\n,", c) >= 0:
			i++
		case strings.IndexByte("[]()=", c) >= 0:
			words = append(words, patternWord{text: string(c)})
			i++
		case c == '\'':
			var text strings.Builder
			for i++; i < len(pattern) && pattern[i] != '\''; i++ {
				if pattern[i] == '\\' && i+1 < len(pattern) {
					i++
				}
				text.WriteByte(pattern[i])
			}
			i++
			words = append(words, patternWord{text.String(), true})
		default:
			start := i
			for i < len(pattern) && strings.IndexByte(" \t\r\n,[]()='", pattern[i]) < 0 {
				i++
			}
			words = append(words, patternWord{text: pattern[start:i]})
		}
	}
	return words
}
