package feed

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"assay/host/entity"
)

// object is a JSON object without its nested values. Keys are member names in lower case. An array of strings is stored
// under its name followed by "[]", joined with commas.
type object map[string]string

// Limits of a JSON document. Members beyond those of one object are dropped.
const (
	maxToken   = 1 << 20 // bytes
	maxDepth   = 32
	maxMembers = 256
	maxObject  = 256 << 10 // bytes of all values except joined arrays
	maxJoined  = 256       // bytes of a name, and of one joined array
)

func (o object) set(name, value string) {
	name = strings.ToLower(name)
	if _, ok := o[name]; !ok && len(o) < maxMembers {
		o[name] = value
	}
}

func (o object) join(name, value string) {
	name = strings.ToLower(name) + "[]"
	switch joined := o[name]; {
	case len(joined)+len(value) >= maxJoined:
	case joined == "":
		o.set(name, value)
	default:
		o[name] = joined + "," + value
	}
}

// tokenReader fails when too much is read for one token, because the decoder holds all of it in memory.
type tokenReader struct {
	*bufio.Reader
	read int // since the last token
}

func (t *tokenReader) Read(p []byte) (int, error) {
	if t.read > maxToken {
		return 0, errors.New("a text is longer than 1 MiB")
	}
	n, err := t.Reader.Read(p)
	t.read += n
	return n, err
}

// walk reads a sequence of JSON values and keeps only the open objects in memory. It calls onText for each scalar
// outside an object, with the name of the member that contains its array, and onObject for each object at its end.
func walk(in *bufio.Reader, onText func(array, value string) error, onObject func(object) error) error {
	type level struct {
		object object // nil for an array
		name   string // the current member, or the member that contains the array
		size   int    // bytes of values
	}
	var stack []level
	tokens := &tokenReader{Reader: in}
	decoder := jsontext.NewDecoder(tokens, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		tokens.read = 0
		token, err := decoder.ReadToken()
		if errors.Is(err, io.EOF) && len(stack) == 0 {
			return nil
		}
		if len(stack) > maxDepth {
			err = fmt.Errorf("values are nested more than %d deep", maxDepth)
		}
		if err != nil {
			return fmt.Errorf("parsing JSON: %w", err)
		}
		var top *level
		if len(stack) > 0 {
			top = &stack[len(stack)-1]
		}
		switch token.Kind() {
		case '{':
			stack = append(stack, level{object: object{}})
		case '[':
			next := level{}
			if top != nil {
				next.name = top.name
			}
			stack = append(stack, next)
		case '}':
			if err := onObject(top.object); err != nil {
				return err
			}
			stack = stack[:len(stack)-1]
		case ']':
			stack = stack[:len(stack)-1]
		default:
			value := token.String()
			switch {
			case top == nil:
				err = onText("", value)
			case top.object == nil:
				if len(stack) > 1 && stack[len(stack)-2].object != nil {
					stack[len(stack)-2].object.join(top.name, value)
				}
				err = onText(top.name, value)
			case isName(decoder):
				top.name = strings.Clone(value[:min(len(value), maxJoined)])
			case len(value) <= maxLine && top.size+len(value) <= maxObject:
				top.size += len(value)
				top.object.set(top.name, value)
			}
			if err != nil {
				return err
			}
		}
	}
}

// isName reports whether the last token is a member name. In an object, names and values alternate.
func isName(d *jsontext.Decoder) bool {
	_, n := d.StackIndex(d.StackDepth())
	return n%2 == 1
}

// readJSON reads strings and objects. An object yields the entity of the first member in entityNames, or of the one in
// Options.Column.
func readJSON(in *bufio.Reader, o Options, take func(item) error) error {
	wanted := entityNames
	if o.Column != "" {
		wanted = []string{strings.ToLower(o.Column)}
	}
	number := int64(0)
	next := func(value, category string) error {
		number++
		i := item{line: number, text: value, category: category}
		if len(value) > maxLine {
			i.text, i.malformed = strings.Clone(value[:maxExampleText]), tooLong
		}
		return take(i)
	}
	return walk(in, func(array, value string) error {
		if array == "" || slices.Contains(wanted, strings.ToLower(array)) {
			return next(value, "")
		}
		return nil
	}, func(ob object) error {
		value, category := "", ""
		for _, name := range wanted {
			if value = ob[name]; value != "" {
				break
			}
		}
		for _, name := range categoryNames {
			if category = ob[name] + " " + ob[name+"[]"]; Category(category) != "" {
				break
			}
		}
		if value == "" {
			return nil
		}
		return next(value, category)
	})
}

// mispTypes maps attribute types of the MISP core format to types of entities.
var mispTypes = map[string]entity.Type{
	"domain": entity.Domain, "hostname": entity.Domain, "url": entity.Domain, "uri": entity.Domain,
	"domain|ip": entity.Domain, "hostname|port": entity.Domain,
	"email": entity.Email, "email-src": entity.Email, "email-dst": entity.Email, "email-reply-to": entity.Email,
	"target-email": entity.Email, "phone-number": entity.Phone, "iban": entity.IBAN,
}

// readMISP reads the attributes of events and of the objects in them. It skips attributes that are deleted or not meant
// for detection (to_ids is false).
func readMISP(in *bufio.Reader, _ Options, take func(item) error) error {
	number := int64(0)
	return walk(in, func(string, string) error { return nil }, func(ob object) error {
		kind, ok := mispTypes[ob["type"]]
		if !ok || ob["value"] == "" {
			return nil
		}
		number++
		value, _, _ := strings.Cut(ob["value"], "|")
		return take(item{
			line: number, text: value, kind: kind, category: ob["category"] + " " + ob["comment"],
			skip: ob["to_ids"] == "false" || ob["deleted"] == "true",
		})
	})
}
