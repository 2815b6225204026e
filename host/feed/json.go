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

// object is what is kept of one JSON object while it is read: its scalar members by their names in lower case, and
// under the name with "[]" its short arrays of strings, joined by commas.
type object map[string]string

// Limits of one object. Lists hold objects of a dozen members.
const (
	maxMembers = 256
	maxJoined  = 256 // bytes of an array that is kept with its object
)

func (o object) set(name, value string) {
	name = strings.ToLower(name)
	if _, ok := o[name]; !ok && len(o) < maxMembers && len(value) <= maxLine {
		o[name] = value
	}
}

func (o object) join(name, value string) {
	name = strings.ToLower(name) + "[]"
	switch held := o[name]; {
	case held == "":
		o.set(name, value)
	case len(held)+len(value) < maxJoined:
		o[name] = held + "," + value
	}
}

// walk reads a sequence of JSON values without holding more of them than the objects that are open. text is called with
// each string of an array and the name of the member that holds the array; end with each object once it has ended.
func walk(in *bufio.Reader, text func(array, value string) error, end func(object) error) error {
	type level struct {
		object object // nil: an array
		name   string // of the member that is read, or that holds the array
	}
	var stack []level
	decoder := jsontext.NewDecoder(in, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		token, err := decoder.ReadToken()
		if errors.Is(err, io.EOF) && len(stack) == 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("it is not JSON: %w", err)
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
			if err := end(top.object); err != nil {
				return err
			}
			stack = stack[:len(stack)-1]
		case ']':
			stack = stack[:len(stack)-1]
		default:
			value := strings.Clone(token.String())
			switch {
			case top == nil:
				err = text("", value)
			case top.object == nil:
				if len(stack) > 1 && stack[len(stack)-2].object != nil {
					stack[len(stack)-2].object.join(top.name, value)
				}
				err = text(top.name, value)
			case isName(decoder):
				top.name = value
			default:
				top.object.set(top.name, value)
			}
			if err != nil {
				return err
			}
		}
	}
}

// isName says whether the token that was read last names a member: in an object every other token does.
func isName(d *jsontext.Decoder) bool {
	_, n := d.StackIndex(d.StackDepth())
	return n%2 == 1
}

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
			i.text, i.reason = value[:echoed], tooLong
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

// mispTypes are the attribute types of the MISP core format that name an entity.
var mispTypes = map[string]entity.Type{
	"domain": entity.Domain, "hostname": entity.Domain, "url": entity.Domain, "uri": entity.Domain,
	"domain|ip": entity.Domain, "hostname|port": entity.Domain,
	"email": entity.Email, "email-src": entity.Email, "email-dst": entity.Email, "email-reply-to": entity.Email,
	"target-email": entity.Email, "phone-number": entity.Phone, "iban": entity.IBAN,
}

// readMISP reads the attributes of events, those of objects in them too. Attributes that are deleted or are no
// indicators (to_ids) are passed over.
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
