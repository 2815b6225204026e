// Package eval evaluates a lineup on labelled values, and fits a lineup's weights to them.
//
// It neither runs guests nor opens a database. A [Scorer] does that, and everything after it is arithmetic on the
// layers' scores, so the same scores always give the same report.
package eval

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/host/entity"
	"assay/registry/fault"
	"assay/sdk"
)

// Row is one labelled value.
type Row struct {
	Type      entity.Type
	Value     string
	Malicious bool   // label 1 or true
	Source    string // where the label comes from, such as the name of a list; "" if unknown
	Category  string // such as "phishing"; "" if unknown
	Country   string // like region.country of a request; "" if unknown
	Rank      int    // on a list of popular sites; 0 if unknown
	Date      string // of the report, such as "2026-04-30"; "" if unknown
	Account   string // that reported it; "" if none did
	Line      int    // of its file, from 1
	// Facts are replayed as if they had been looked up. nil: the row has none.
	Facts entity.Facts
	// HeldOut holds scores of layers, by name, from models that were trained without the row and everything like it.
	// They replace the scores of these layers.
	HeldOut map[string]int
}

// LineError reports a line that is not a valid row.
type LineError struct {
	Line   int // from 1
	Reason string
}

func (e LineError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Reason) }

// maxLine is the maximum length of a line in bytes, far more than any valid row needs.
const maxLine = 1 << 20

// Unpacked returns the text of in, which may be gzipped.
func Unpacked(in io.Reader) (io.Reader, error) {
	buffered := bufio.NewReader(in)
	if magic, _ := buffered.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) { // RFC 1952, section 2.3.1
		return gzip.NewReader(buffered)
	}
	return buffered, nil
}

// Read reads JSON lines, plain or gzipped: {"type", "value", "label", "source"?, "category"?, "country"?, "rank"?,
// "date"?, "account"?, "facts"?, "held_out"?}. The values of facts are text, or numbers as in JSON. It ignores unknown
// fields and blank lines. Rows without a type have type defaultType, and are invalid if that is "". Instead of country,
// a row may have a region: a string, or an object like that of a request. Read returns invalid lines separately in bad;
// err reports a failure to read the input.
func Read(in io.Reader, defaultType entity.Type) (rows []Row, bad []LineError, err error) {
	text, err := Unpacked(in)
	if err != nil {
		return nil, nil, fmt.Errorf("unpacking rows: %w", err)
	}
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, maxLine)
	n := 0
	for lines.Scan() {
		n++
		line := bytes.TrimSpace(lines.Bytes())
		if n == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		if len(line) == 0 {
			continue
		}
		row, err := parseRow(line, defaultType)
		if err != nil {
			bad = append(bad, LineError{n, err.Error()})
			continue
		}
		row.Line = n
		rows = append(rows, row)
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return rows, bad, fmt.Errorf("reading rows: line %d is longer than %d bytes", n+1, maxLine)
	}
	return rows, bad, fault.Wrap(lines.Err(), "reading rows after line %d", n)
}

func parseRow(line []byte, defaultType entity.Type) (Row, error) {
	var raw struct {
		Type     string                    `json:"type"`
		Value    *string                   `json:"value"`
		Label    jsontext.Value            `json:"label"`
		Source   string                    `json:"source"`
		Category string                    `json:"category"`
		Country  string                    `json:"country"`
		Region   jsontext.Value            `json:"region"`
		Rank     int                       `json:"rank"`
		Date     string                    `json:"date"`
		Account  string                    `json:"account"`
		Facts    map[string]jsontext.Value `json:"facts"`
		HeldOut  map[string]int            `json:"held_out"`
	}
	if err := json.Unmarshal(line, &raw); err != nil {
		return Row{}, plainReason(err)
	}
	row := Row{Type: cmp.Or(entity.Type(raw.Type), defaultType), Source: raw.Source, Category: raw.Category,
		Country: raw.Country, Rank: raw.Rank, Date: raw.Date, Account: raw.Account, HeldOut: raw.HeldOut}
	switch {
	case row.Type == "":
		return row, errors.New("type is missing")
	case !slices.Contains(entity.Types(), row.Type):
		return row, fmt.Errorf("type is %q, want domain, email, phone or iban", clip(raw.Type))
	case raw.Value == nil:
		return row, errors.New("value is missing")
	}
	row.Value = *raw.Value
	switch label := raw.Label.String(); label {
	case "1", "true":
		row.Malicious = true
	case "0", "false":
	case "", "null":
		return row, errors.New("label is missing")
	default:
		return row, fmt.Errorf("label is %s, want 1 (malicious) or 0 (benign)", clip(label))
	}
	if row.Country == "" && len(raw.Region) > 0 {
		var err error
		if row.Country, err = regionCountry(raw.Region); err != nil {
			return row, err
		}
	}
	if _, err := entity.Country(row.Country); err != nil {
		return row, err
	}
	for layer, score := range raw.HeldOut {
		if score < -sdk.MaxPoints || score > sdk.MaxPoints {
			return row, fmt.Errorf("held_out score of layer %s is %d, outside -%d to %d", clip(layer), score,
				sdk.MaxPoints, sdk.MaxPoints)
		}
	}
	var err error
	row.Facts, err = replayed(raw.Facts)
	return row, err
}

// replayed decodes facts, whose values are strings or numbers.
func replayed(raw map[string]jsontext.Value) (entity.Facts, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	facts := entity.Facts{}
	for name, value := range raw {
		text := value.String()
		switch value.Kind() {
		case '"':
			if err := json.Unmarshal(value, &text); err != nil {
				return nil, err
			}
		case '0':
		default:
			return nil, fmt.Errorf("fact %s is %s, want a string or a number", clip(name), clip(text))
		}
		if text != "" { // a fact is absent, never empty
			facts[name] = text
		}
	}
	return facts, nil
}

// regionCountry decodes a region such as "DE" or {"country": "DE"}.
func regionCountry(region jsontext.Value) (string, error) {
	var text string
	if json.Unmarshal(region, &text) == nil {
		return text, nil
	}
	var object struct {
		Country string `json:"country"`
	}
	if json.Unmarshal(region, &object) == nil {
		return object.Country, nil
	}
	return "", fmt.Errorf("region is %s, want a country or an object with a country", clip(region.String()))
}

// plainReason rephrases a decoding error without the names of Go types.
func plainReason(err error) error {
	var semantic *json.SemanticError
	if !errors.As(err, &semantic) {
		return fmt.Errorf("it is not JSON: %w", err)
	}
	where := strings.TrimPrefix(string(semantic.JSONPointer), "/")
	if where == "" {
		return errors.New("it is not a JSON object")
	}
	want := "a string"
	switch semantic.GoType.Kind() {
	case reflect.Int:
		want = "an integer"
	case reflect.Map:
		want = "an object"
	}
	return fmt.Errorf("%s is a JSON %s, want %s", where, semantic.JSONKind, want)
}

// clip shortens a part of the input for an error.
func clip(s string) string {
	const maxRunes = 32
	if runes := []rune(s); len(runes) > maxRunes {
		return string(runes[:maxRunes]) + "…"
	}
	return s
}
