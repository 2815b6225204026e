// Package eval measures how right a lineup is about labelled values, and fits a lineup's weights to them.
//
// It runs no guests and opens no database itself: it asks a [Scorer], and everything after that is arithmetic on the
// layers' scores, so that the same answers always give the same report.
package eval

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/host/entity"
)

// Row is one labelled value.
type Row struct {
	Type      entity.Type
	Value     string
	Malicious bool   // label 1 or true
	Source    string // who says so; "" when not told
	Category  string // what it is; "" when not told
	Country   string // as region.country of a request; "" when not told
}

// LineError is a line that is no row.
type LineError struct {
	Line   int // from 1
	Reason string
}

func (e LineError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Reason) }

// maxLine bounds a line, in bytes: no value that can be scored comes near it.
const maxLine = 1 << 20

// Read reads JSON lines, plain or compressed by gzip: {"type", "value", "label", "source"?, "category"?, "country"?}.
// Unknown fields and blank lines are passed over. A row without a type is of type untyped, unless that is "". The
// country may also be called region, as a text or as a request's object. Lines that are no rows are returned beside
// those that are; the error is about the input as a whole.
func Read(in io.Reader, untyped entity.Type) (rows []Row, bad []LineError, err error) {
	buffered := bufio.NewReader(in)
	if magic, _ := buffered.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) { // RFC 1952, section 2.3.1
		unzipped, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, nil, fmt.Errorf("unpacking rows: %w", err)
		}
		buffered = bufio.NewReader(unzipped)
	}
	lines := bufio.NewScanner(buffered)
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
		row, err := parseRow(line, untyped)
		if err != nil {
			bad = append(bad, LineError{n, err.Error()})
			continue
		}
		rows = append(rows, row)
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return rows, bad, fmt.Errorf("reading rows: line %d is longer than %d bytes", n+1, maxLine)
	}
	if err := lines.Err(); err != nil {
		return rows, bad, fmt.Errorf("reading rows after line %d: %w", n, err)
	}
	return rows, bad, nil
}

func parseRow(line []byte, untyped entity.Type) (Row, error) {
	var raw struct {
		Type     string         `json:"type"`
		Value    *string        `json:"value"`
		Label    jsontext.Value `json:"label"`
		Source   string         `json:"source"`
		Category string         `json:"category"`
		Country  string         `json:"country"`
		Region   jsontext.Value `json:"region"`
	}
	if err := json.Unmarshal(line, &raw); err != nil {
		return Row{}, plainReason(err)
	}
	row := Row{Type: cmp.Or(entity.Type(raw.Type), untyped), Source: raw.Source, Category: raw.Category,
		Country: raw.Country}
	switch {
	case row.Type == "":
		return row, errors.New("type is missing")
	case !slices.Contains(entity.Types(), row.Type):
		return row, fmt.Errorf("type is %q, which is none of domain, email, phone and iban", clip(raw.Type))
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
		return row, fmt.Errorf("label is %s, neither 1 (malicious) nor 0 (benign)", clip(label))
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
	return row, nil
}

// regionCountry reads "DE" and {"country": "DE"}.
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
	return "", fmt.Errorf("region is %s, neither a country nor an object with one", clip(region.String()))
}

// plainReason is a decoding error without the names of Go types.
func plainReason(err error) error {
	var semantic *json.SemanticError
	if !errors.As(err, &semantic) {
		return fmt.Errorf("it is not JSON: %w", err)
	}
	where := strings.TrimPrefix(string(semantic.JSONPointer), "/")
	if where == "" {
		return errors.New("it is not a JSON object")
	}
	return fmt.Errorf("%s is a JSON %s, not a text", where, semantic.JSONKind)
}

// clip shortens a piece of the input for an error.
func clip(s string) string {
	const most = 32
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return s
}
