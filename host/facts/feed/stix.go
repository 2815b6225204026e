package feed

import (
	"bufio"
	"errors"
	"strings"
	"time"

	"assay/host/entity"
)

// stixPaths maps object paths to types of entities (STIX 2.1 section 6).
var stixPaths = map[string]entity.Type{
	"domain-name:value": entity.Domain, "url:value": entity.Domain, "email-addr:value": entity.Email,
	"email-message:from_ref.value": entity.Email, "email-message:sender_ref.value": entity.Email,
}

// readSTIX reads the indicators of bundles. It skips indicators that are revoked, expired, or for something other than
// a single entity, such as files, IP addresses or combined observations.
func readSTIX(in *bufio.Reader, o Options, take func(item) error) error {
	number := int64(0)
	return walk(in, func(string, string) error { return nil }, func(ob object) error {
		if ob["type"] != "indicator" {
			return nil
		}
		number++
		expired := ob["revoked"] == "true"
		if until, err := time.Parse(time.RFC3339Nano, ob["valid_until"]); err == nil && !until.After(o.Now()) {
			expired = true
		}
		i := item{line: number, text: ob["pattern"], category: ob["indicator_types[]"] + "," + ob["labels[]"] + "," +
			ob["name"], skip: expired}
		if kind := ob["pattern_type"]; kind != "" && kind != "stix" { // such as YARA or Snort
			i.skip = true
			return take(i)
		}
		entities, err := parsePattern(ob["pattern"])
		switch {
		case errors.Is(err, errNotEntity):
			i.skip = true
			return take(i)
		case err != nil:
			i.malformed = err.Error()
			return take(i)
		}
		for _, e := range entities {
			i.kind, i.text = e.kind, e.text
			if err := take(i); err != nil {
				return err
			}
		}
		return nil
	})
}

var (
	errPattern   = errors.New("has an invalid pattern")
	errNotEntity = errors.New("has a pattern for something other than a single domain, URL or email address")
)

// parsePattern parses a pattern (STIX 2.1 section 9) of one or more equality comparisons joined with OR, where each
// comparison is an indicator by itself. It returns errNotEntity for a pattern that needs several observations or has
// other comparisons, and errPattern for an invalid one.
func parsePattern(pattern string) ([]item, error) {
	var found []item
	words := splitPattern(pattern)
	for i := 0; i < len(words); i++ {
		switch word := words[i]; strings.ToUpper(word.text) {
		case "[", "]", "(", ")", "OR":
			continue
		case "AND", "FOLLOWEDBY", "NOT", "WITHIN", "REPEATS", "START":
			return nil, errNotEntity
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
			default: // another operator, or not a string
				return nil, errNotEntity
			}
		}
	}
	switch {
	case len(words) == 0:
		return nil, errPattern
	case len(found) == 0:
		return nil, errNotEntity
	}
	return found, nil
}

type patternWord struct {
	text   string
	quoted bool
}

// splitPattern splits a pattern into brackets, quoted strings and words.
func splitPattern(pattern string) []patternWord {
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
