package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/valyala/fasthttp"

	"assay/host/check"
	"assay/host/entity"
)

// Limits on a body's JSON, counted over the whole document.
const (
	maxDepth   = 8  // objects and arrays within each other, the outermost counted
	maxMembers = 64 // of all objects together
)

// vetContent checks what a body claims to be.
//
// No Content-Type, and that of HTML forms, are taken for JSON, since `curl -d` sends the latter unless told
// otherwise. A form on a foreign site gains nothing by that: it cannot set an Authorization header, and the endpoint
// without a key has nothing of the user's.
func vetContent(h *fasthttp.RequestHeader) error {
	if len(h.PeekAll(fasthttp.HeaderContentEncoding)) > 0 {
		return errEncoding // no decompression bombs
	}
	kind := string(h.ContentType())
	if kind == "" {
		return nil
	}
	media, params, err := mime.ParseMediaType(kind)
	if err != nil || media != "application/json" && media != "application/x-www-form-urlencoded" {
		return errMediaType
	}
	if charset, ok := params["charset"]; ok && !strings.EqualFold(charset, "utf-8") {
		return errMediaType
	}
	return nil
}

// query is what a body asks for.
type query struct {
	fields  []check.Field // those that are given, which white space alone is not
	country string        // region.country; "" when not given
}

// decode reads a body strictly (RFC 8259 in the profile of RFC 7493, I-JSON): nothing that two readers could
// understand differently passes. Members that it does not know are ignored. The strings share no memory with body. An
// error is an invalidBody or *entity.InvalidError.
func decode(body []byte) (query, error) {
	d := newDecoder(body)
	q, err := d.query()
	if err != nil {
		return query{}, err
	}
	return q, d.end()
}

func newDecoder(body []byte) *decoder {
	return &decoder{Decoder: jsontext.NewDecoder(bytes.NewBuffer(body))}
}

// end makes sure that nothing follows the document.
func (d *decoder) end() error {
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return invalidBody("the body must be one JSON object, with nothing after it")
	}
	return nil
}

type decoder struct {
	*jsontext.Decoder
	members int
}

// next returns the next token. It is valid until the next call.
func (d *decoder) next() (jsontext.Token, error) {
	token, err := d.ReadToken()
	if err != nil {
		return token, d.syntaxError(err)
	}
	depth := d.StackDepth()
	if depth > maxDepth {
		return token, invalidBody(fmt.Sprintf("the body is nested more than %d deep", maxDepth))
	}
	if kind, n := d.StackIndex(depth); kind == '{' && n%2 == 1 { // names and values are counted alike
		if d.members++; d.members > maxMembers {
			return token, invalidBody(fmt.Sprintf("the body has more than %d members", maxMembers))
		}
	}
	return token, nil
}

// syntaxError says where the JSON is not such as this decoder takes.
func (d *decoder) syntaxError(err error) error {
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return invalidBody(fmt.Sprintf("a name occurs twice in one object, near byte %d", d.InputOffset()))
	case errors.Is(err, io.EOF):
		return invalidBody("the body is empty; a JSON object is expected")
	}
	return invalidBody(fmt.Sprintf("the body is not valid JSON in UTF-8, near byte %d", d.InputOffset()))
}

// skip reads past one value.
func (d *decoder) skip() error {
	depth := d.StackDepth()
	for {
		if _, err := d.next(); err != nil {
			return err
		}
		if d.StackDepth() == depth {
			return nil
		}
	}
}

// object calls member with each name of an object, to read its value.
func (d *decoder) object(what func(found string) error, member func(name string) error) error {
	token, err := d.next()
	if err != nil {
		return err
	}
	if token.Kind() != '{' {
		return what(kindName(token.Kind()))
	}
	for d.PeekKind() != '}' {
		name, err := d.next()
		if err != nil {
			return err
		}
		if err := member(name.String()); err != nil {
			return err
		}
	}
	_, err = d.next()
	return err
}

func (d *decoder) query() (q query, err error) {
	given := map[entity.Type]string{}
	err = d.object(
		func(found string) error { return invalidBody("the body must be a JSON object, not " + found) },
		func(name string) (err error) {
			switch t := entity.Type(name); t {
			case entity.Domain, entity.Email, entity.Phone, entity.IBAN:
				given[t], err = d.text(name)
				return err
			case "region":
				q.country, err = d.region()
				return err
			}
			return d.skip()
		})
	if err != nil {
		return query{}, err
	}
	for _, t := range entity.Types() {
		v := given[t]
		if strings.TrimSpace(v) == "" {
			continue
		}
		if strings.ContainsFunc(v, isControl) {
			return query{}, &entity.InvalidError{Field: string(t), Reason: "must not contain control characters"}
		}
		q.fields = append(q.fields, check.Field{Type: t, Value: v})
	}
	return q, nil
}

func (d *decoder) region() (country string, err error) {
	err = d.object(
		func(found string) error {
			return &entity.InvalidError{Field: "region",
				Reason: "must be an object such as {\"country\":\"DE\"}, not " + found}
		},
		func(name string) (err error) {
			if name == "country" {
				country, err = d.text("region.country")
				return err
			}
			return d.skip()
		})
	return country, err
}

// text reads a value that must be a string.
func (d *decoder) text(field string) (string, error) {
	token, err := d.next()
	if err != nil {
		return "", err
	}
	if token.Kind() != '"' {
		return "", &entity.InvalidError{Field: field, Reason: "must be a string, not " + kindName(token.Kind())}
	}
	return token.String(), nil
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

// isControl says whether r is in C0 or C1, or DEL.
func isControl(r rune) bool { return r < 0x20 || 0x7f <= r && r <= 0x9f }
