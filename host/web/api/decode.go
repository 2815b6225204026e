package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/valyala/fasthttp"

	"assay/host/check"
	"assay/host/entity"
	"assay/registry/suggest"
)

// Limits on the JSON of a body, or of each request in a batch.
const (
	maxDepth   = 8  // nested objects and arrays, including the outermost
	maxMembers = 64 // of all objects together
)

// vetContent returns an error unless the headers describe a body of plain JSON in UTF-8.
//
// A missing Content-Type and that of HTML forms count as JSON too, because curl -d sends the latter by default. This
// does not help a form on a foreign site: it cannot set an Authorization header, and the public endpoint has no
// credentials to abuse.
func vetContent(h *fasthttp.RequestHeader) error {
	if len(h.PeekAll(fasthttp.HeaderContentEncoding)) > 0 {
		return errEncoding // no decompression bombs
	}
	contentType := h.ContentType()
	if len(contentType) == 0 || string(contentType) == "application/json" {
		return nil
	}
	media, params, err := mime.ParseMediaType(string(contentType))
	if err != nil || media != "application/json" && media != "application/x-www-form-urlencoded" {
		return errMediaType
	}
	if charset, ok := params["charset"]; ok && !strings.EqualFold(charset, "utf-8") {
		return errMediaType
	}
	return nil
}

// query is the content of a check request.
type query struct {
	fields  []check.Field // without blank ones, in the order of entity.Types
	country string        // region.country; "" if not given
	receipt bool          // the result has a receipt

	warnings []check.Warning // about fields that are left out
}

// decode reads a check request strictly (RFC 8259 in the profile of RFC 7493, I-JSON), so that no two readers can
// understand it differently. Unknown members, and invalid fields after the one to score, are left out with a warning.
// Errors are of type invalidBody or *entity.InvalidError.
func decode(body []byte) (q query, err error) {
	members, err := decodeObject(body, "")
	if err != nil {
		return q, err
	}
	for _, t := range entity.Types() {
		text, err := textOf(members[string(t)], string(t))
		if err == nil && strings.ContainsFunc(text, isControl) && strings.TrimSpace(text) != "" {
			err = &entity.InvalidError{Field: string(t), Reason: "must not contain control characters"}
		}
		switch {
		case err != nil && len(q.fields) > 0:
			q.warnings = append(q.warnings, check.Warning{Field: string(t), Message: err.Error()})
		case err != nil:
			return query{}, err
		case strings.TrimSpace(text) != "":
			q.fields = append(q.fields, check.Field{Type: t, Value: text})
		}
	}
	if q.receipt, err = flagOf(members["receipt"], "receipt"); err != nil {
		return query{}, err
	}
	q.warnings = append(q.warnings, unknown(members, "", requestFields)...)
	region, err := regionOf(members["region"])
	if err != nil {
		return query{}, err
	}
	q.warnings = append(q.warnings, unknown(region, "region.", regionFields)...)
	q.country, err = textOf(region["country"], "region.country")
	return q, err
}

// object has the members of a JSON object, except those that are null.
type object map[string]jsontext.Value

// text returns the text of a string, or "" for a member that is missing.
func (members object) text(name string) (string, error) { return textOf(members[name], name) }

// country returns the country of the region, or "" if there is none.
func (members object) country() (string, error) {
	region, err := regionOf(members["region"])
	if err != nil {
		return "", err
	}
	return textOf(region["country"], "region.country")
}

// textsOf reads several texts, in their order.
func textsOf(read func(name string) (string, error), names ...string) ([]string, error) {
	texts := make([]string, len(names))
	for i, name := range names {
		var err error
		if texts[i], err = read(name); err != nil {
			return nil, err
		}
	}
	return texts, nil
}

// noField returns the error of a request without a field to score.
func (q query) noField() error {
	var e check.NoFieldError
	if len(q.warnings) > 0 {
		e.Hint = "; " + q.warnings[0].Message
	}
	return e
}

// The members of a check request and of its region (contract section 2.1).
var (
	requestFields = []string{"domain", "email", "phone", "iban", "region", "receipt"}
	regionFields  = []string{"country"}
)

// unknown returns a warning for each member that is not a known one, and names the one that was probably meant.
func unknown(members object, prefix string, known []string) (warnings []check.Warning) {
	const longest = 64 // bytes of a name
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if !slices.Contains(known, name) {
			name = strings.ToValidUTF8(name[:min(len(name), longest)], "")
			warnings = append(warnings, check.Warning{Field: prefix + name,
				Message: prefix + name + " is unknown and was ignored" + suggest.Word(name, known)})
		}
	}
	return warnings
}

// flagOf returns a JSON boolean, or false for a member that is missing.
func flagOf(value jsontext.Value, field string) (bool, error) {
	if value != nil && value.Kind() != 't' && value.Kind() != 'f' {
		return false, &entity.InvalidError{Field: field, Reason: "must be true or false, not " + kindName(value.Kind())}
	}
	return value != nil && value.Kind() == 't', nil
}

// decodeObject reads a body that is one JSON object, and returns its members. The limits do not apply to the value of
// the member named unlimited.
func decodeObject(body []byte, unlimited string) (object, error) {
	if err := vetJSON(jsontext.NewDecoder(bytes.NewBuffer(body)), unlimited); err != nil {
		return nil, err
	}
	return membersOf(body)
}

// membersOf returns the members of a JSON object that was vetted. null means that a member is absent.
func membersOf(body []byte) (members object, err error) {
	if err = json.Unmarshal(body, &members); err != nil {
		return nil, fmt.Errorf("decoding a vetted object: %w", err)
	}
	maps.DeleteFunc(members, func(_ string, value jsontext.Value) bool { return value.Kind() == 'n' })
	return members, nil
}

// vetJSON returns an invalidBody unless d reads one JSON object within the limits, in valid UTF-8 and without duplicate
// names.
func vetJSON(d *jsontext.Decoder, unlimited string) error {
	for members, started := 0, false; !started || d.StackDepth() > 0; started = true {
		token, err := d.ReadToken()
		kind, n := d.StackIndex(d.StackDepth())
		if err == nil && kind == '{' && n%2 == 1 { // a name: the index counts names and values
			members++
			if unlimited != "" && d.StackDepth() == 1 && token.String() == unlimited {
				err = d.SkipValue()
			}
		}
		switch {
		case errors.Is(err, jsontext.ErrDuplicateName):
			return invalidBody(fmt.Sprintf("a name occurs twice in one object, near byte %d", d.InputOffset()))
		case errors.Is(err, io.EOF):
			return invalidBody("the body is empty; a JSON object is expected")
		case err != nil:
			return invalidBody(fmt.Sprintf("the body is not valid JSON in UTF-8, near byte %d", d.InputOffset()))
		case !started && token.Kind() != '{':
			return invalidBody("the body must be a JSON object, not " + kindName(token.Kind()))
		case d.StackDepth() > maxDepth:
			return invalidBody(fmt.Sprintf("the body is nested more than %d levels deep", maxDepth))
		case members > maxMembers:
			return invalidBody(fmt.Sprintf("the body has more than %d members", maxMembers))
		}
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return invalidBody("the body must be one JSON object, with nothing after it")
	}
	return nil
}

// regionOf returns the members of a region, which may be absent.
func regionOf(region jsontext.Value) (object, error) {
	if region == nil {
		return nil, nil
	}
	if region.Kind() != '{' {
		return nil, &entity.InvalidError{Field: "region",
			Reason: `must be an object such as {"country":"DE"}, not ` + kindName(region.Kind())}
	}
	return membersOf(region)
}

// textOf returns the text of a JSON string, or "" for a member that is missing.
func textOf(value jsontext.Value, field string) (string, error) {
	if value == nil {
		return "", nil
	}
	if value.Kind() != '"' {
		return "", &entity.InvalidError{Field: field, Reason: "must be a string, not " + kindName(value.Kind())}
	}
	text, err := jsontext.AppendUnquote(nil, value)
	return string(text), err
}

func kindName(k jsontext.Kind) string {
	switch k {
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '[':
		return "an array"
	}
	return "an object"
}

// isControl reports whether r is a C0 or C1 control character or DEL.
func isControl(r rune) bool { return r < 0x20 || 0x7f <= r && r <= 0x9f }
