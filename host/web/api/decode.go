package api

import (
	"bytes"
	"cmp"
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
	"assay/registry/fault"
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
	receipt bool          // the result includes a receipt

	warnings []check.Warning // about fields that are left out
}

// values are the fields of a body that name an entity; nil if absent. A national phone number is read in the region.
type values struct {
	Domain *string `json:"domain"`
	Email  *string `json:"email"`
	Phone  *string `json:"phone"`
	IBAN   *string `json:"iban"`
	Region region  `json:"region"`
}

// region is where the person or company is believed to be.
type region struct {
	Country string  `json:"country"`
	Unknown unknown `json:",embed"`
}

// checkBody is a check request (contract section 2.1).
type checkBody struct {
	values

	Receipt bool    `json:"receipt"`
	Unknown unknown `json:",embed"`
}

// unknown holds the members of a JSON object that match no field.
type unknown map[string]jsontext.Value

// The names of the fields of a check request and of its region.
var (
	requestFields = []string{"domain", "email", "phone", "iban", "region", "receipt"}
	regionFields  = []string{"country"}
)

// strayInRegion returns an error if the region has an unknown field.
func (v *values) strayInRegion() error {
	for _, w := range v.Region.Unknown.warnings("region.", regionFields) {
		return unknownField(w.Field, nil)
	}
	return nil
}

// texts returns the values by the names of their fields.
func (v *values) texts() map[string]*string {
	return map[string]*string{"domain": v.Domain, "email": v.Email, "phone": v.Phone, "iban": v.IBAN}
}

// entity returns the entity that is named, or nil if none is. Errors are of type invalidBody or *entity.InvalidError.
func (v *values) entity() (found *entity.Entity, err error) {
	texts := v.texts()
	for _, t := range entity.Types() {
		text := texts[string(t)]
		if text == nil {
			continue
		}
		if found != nil {
			return nil, invalidBody("at most one of domain, email, phone or iban can be given: the one that was scored")
		}
		e, err := entity.Parse(t, *text, v.Region.Country)
		if err != nil {
			return nil, err
		}
		found = &e
	}
	return found, nil
}

// decode reads a check request. Unknown members, and invalid fields after the one to score, are left out with a
// warning. Errors are of type invalidBody or *entity.InvalidError.
func decode(body []byte) (q query, err error) {
	b, problems, err := unmarshal[checkBody](body, "")
	if err != nil {
		return q, err
	}
	texts := b.texts()
	for _, t := range entity.Types() {
		text := texts[string(t)]
		if text == nil {
			continue
		}
		err := problems[string(t)]
		if err == nil && strings.ContainsFunc(*text, isControl) && strings.TrimSpace(*text) != "" {
			err = &entity.InvalidError{Field: string(t), Reason: "must not contain control characters"}
		}
		switch {
		case err != nil && len(q.fields) > 0:
			q.warnings = append(q.warnings, check.Warning{Field: string(t), Message: err.Error()})
		case err != nil:
			return query{}, err
		case strings.TrimSpace(*text) != "":
			q.fields = append(q.fields, check.Field{Type: t, Value: *text})
		}
		delete(problems, string(t))
	}
	q.receipt, q.country = b.Receipt, b.Region.Country
	q.warnings = append(q.warnings, b.Unknown.warnings("", requestFields)...)
	q.warnings = append(q.warnings, b.Region.Unknown.warnings("region.", regionFields)...)
	return q, problems.first()
}

// noField returns the error of a request without a field to score.
func (q query) noField() error {
	var e check.NoFieldError
	if len(q.warnings) > 0 {
		e.Hint = "; " + q.warnings[0].Message
	}
	return e
}

// warnings returns a warning for each unknown member that is not null, and suggests the known one probably meant.
func (m unknown) warnings(prefix string, known []string) (warnings []check.Warning) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if m[name].Kind() == 'n' {
			continue
		}
		name = shortName(name)
		warnings = append(warnings, check.Warning{Field: prefix + name,
			Message: prefix + name + " is unknown and was ignored" + suggest.Word(name, known)})
	}
	return warnings
}

// problems holds the errors of fields that have the wrong type, by the field's name.
type problems map[string]*entity.InvalidError

// first returns the problem whose field is first in the alphabet, or nil.
func (p problems) first() error {
	for _, name := range slices.Sorted(maps.Keys(p)) {
		return p[name]
	}
	return nil
}

// strict refuses unknown fields. A misspelt one would widen what a search finds or an override covers.
var strict = json.RejectUnknownMembers(true)

// decodeObject reads a body into a struct. It fails if any field has the wrong type. Errors are of type invalidBody or
// *entity.InvalidError.
func decodeObject[T any](body []byte, v *T, options ...json.Options) (err error) {
	var p problems
	*v, p, err = unmarshal[T](body, "", options...)
	var unknown *json.SemanticError
	region, ok := any(v).(interface{ strayInRegion() error })
	switch {
	case err == nil && ok && len(options) > 0:
		err = cmp.Or(p.first(), region.strayInRegion())
	case err == nil:
		err = p.first()
	case errors.As(err, &unknown) && errors.Is(err, json.ErrUnknownName):
		err = unknownField(strings.ReplaceAll(strings.TrimPrefix(string(unknown.JSONPointer), "/"), "/", "."), nil)
	}
	return err
}

// unknownField returns the error about a field that is not in known. It suggests the one that was probably meant.
func unknownField(name string, known []string) error {
	return &entity.InvalidError{Field: shortName(name), Reason: "is unknown" + suggest.Word(name, known)}
}

// shortName returns the first bytes of an unknown field's name.
func shortName(name string) string {
	const longest = 64 // bytes
	return strings.ToValidUTF8(name[:min(len(name), longest)], "")
}

// unmarshal reads a body that is one JSON object strictly (RFC 8259 in the profile of RFC 7493, I-JSON), so that no two
// readers can understand it differently. null means that a field is absent; a field of the wrong type has no value, and
// a problem. The limits do not apply to the value of the member named unlimited. The error is an invalidBody.
func unmarshal[T any](body []byte, unlimited string, options ...json.Options) (v T, p problems, err error) {
	if err := vetJSON(jsontext.NewDecoder(bytes.NewBuffer(body)), unlimited); err != nil {
		return v, nil, err
	}
	p = problems{}
	err = json.Unmarshal(body, &v, json.WithUnmarshalers(json.JoinUnmarshalers(
		typed[string](p, `"`, "a string"),
		typed[bool](p, "tf", "true or false"),
		typed[region](p, "{", `an object such as {"country":"DE"}`),
		typed[[]jsontext.Value](p, "[", "an array"),
	)), json.JoinOptions(options...))
	return v, p, fault.Wrap(err, "decoding a vetted object")
}

// typed reads a T as usual if its JSON is null or of one of the kinds. Otherwise it records that T must be want.
func typed[T any](p problems, kinds, want string) *json.Unmarshalers {
	return json.UnmarshalFromFunc(func(d *jsontext.Decoder, _ *T) error {
		kind := d.PeekKind()
		if kind == 'n' || strings.ContainsRune(kinds, rune(kind)) {
			return errors.ErrUnsupported
		}
		err := d.SkipValue()
		field := strings.ReplaceAll(strings.TrimPrefix(string(d.StackPointer()), "/"), "/", ".")
		p[field] = &entity.InvalidError{Field: field, Reason: "must be " + want + ", not " + kindName(kind)}
		return err
	})
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
