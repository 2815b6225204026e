package feed

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/netip"
	"strings"

	"assay/host/entity"
)

// eachLine calls with every line, its number from 1 and whether it was cut for being longer than maxLine.
func eachLine(in *bufio.Reader, with func(number int64, line string, cut bool) error) error {
	for number := int64(1); ; number++ {
		piece, err := in.ReadSlice('\n')
		line, cut := strings.TrimRight(string(piece), "\r\n"), false
		for errors.Is(err, bufio.ErrBufferFull) {
			cut = true
			_, err = in.ReadSlice('\n')
		}
		ended := errors.Is(err, io.EOF)
		if err != nil && !ended {
			return err
		}
		if line != "" {
			if err := with(number, line, cut); err != nil {
				return err
			}
		}
		if ended {
			return nil
		}
	}
}

const tooLong = "is longer than 64 KiB"

// comment says whether a line is one in the usual list formats: shell, INI, ad blockers.
func comment(line string) bool {
	return line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") || strings.HasPrefix(line, "!") ||
		strings.HasPrefix(line, "//") || strings.HasPrefix(line, "[Adblock")
}

// cutComment takes off what follows a '#' after white space. A '#' inside a word may be part of a URL.
func cutComment(line string) string {
	for i := 1; i < len(line); i++ {
		if line[i] == '#' && (line[i-1] == ' ' || line[i-1] == '\t') {
			return strings.TrimSpace(line[:i])
		}
	}
	return line
}

func readHosts(in *bufio.Reader, _ Options, take func(item) error) error {
	return eachLine(in, func(number int64, line string, cut bool) error {
		line = strings.TrimSpace(line)
		switch {
		case comment(line):
			return nil
		case cut:
			return take(item{line: number, text: line, reason: tooLong})
		}
		fields := strings.Fields(cutComment(line))
		if _, err := netip.ParseAddr(fields[0]); err != nil {
			if len(fields) > 1 {
				return take(item{line: number, text: line, reason: "does not begin with an address"})
			}
			fields = append([]string{""}, fields...) // a name alone, as many hosts lists hold
		}
		if len(fields) == 1 {
			return take(item{line: number, text: line, reason: "names no host"})
		}
		for _, name := range fields[1:] {
			if err := take(item{line: number, text: name, kind: entity.Domain, skip: ownHost(name)}); err != nil {
				return err
			}
		}
		return nil
	})
}

// ownHost knows the names by which a hosts file calls the machine itself and its networks.
func ownHost(name string) bool {
	_, err := netip.ParseAddr(name)
	return err == nil || !strings.Contains(name, ".") || strings.HasSuffix(name, ".localdomain") ||
		strings.HasSuffix(name, ".local")
}

func readPlain(in *bufio.Reader, _ Options, take func(item) error) error {
	return eachLine(in, func(number int64, line string, cut bool) error {
		line = strings.TrimSpace(line)
		switch {
		case comment(line):
			return nil
		case cut:
			return take(item{line: number, text: line, reason: tooLong})
		case strings.HasPrefix(line, "@@"):
			return take(item{line: number, text: line, skip: true}) // an ad blocker's exception
		}
		line = cutComment(line)
		if host, found := strings.CutPrefix(line, "||"); found {
			host, options, _ := strings.Cut(host, "^")
			if strings.ContainsAny(host, "/*") || options != "" && !strings.HasPrefix(options, "$") {
				return take(item{line: number, text: line, reason: "is a rule of an ad blocker for less than a host"})
			}
			line = host
		}
		return take(item{line: number, text: line})
	})
}

// The names by which lists call the column, or the member, that holds the entity, and the one that holds the category,
// the likelier first.
var (
	entityNames = []string{
		"domain", "domains", "host", "hosts", "hostname", "fqdn", "url", "urls", "email", "emails", "e-mail", "address",
		"phone", "phones", "number",
		"iban", "ibans", "indicator", "ioc", "ioc_value", "value", "entity", "blacklist", "blocklist", "denylist",
		"name",
	}
	categoryNames = []string{"threat", "category", "threat_type", "classification", "type", "tags"}
)

// readCSV reads one record a line: published lists have no line ends inside quotes, and one stray quote must not
// swallow the rest.
func readCSV(in *bufio.Reader, o Options, take func(item) error) error {
	var columns *csvColumns
	var header string // a line of comment may be it
	return eachLine(in, func(number int64, line string, cut bool) error {
		switch {
		case comment(strings.TrimSpace(line)):
			header = strings.TrimLeft(line, "#; \t")
			return nil
		case cut:
			return take(item{line: number, text: line, reason: tooLong})
		}
		if columns == nil {
			var isHeader bool
			var err error
			if columns, isHeader, err = findColumns(line, header, o); err != nil || isHeader {
				return err
			}
		}
		fields := columns.split(line)
		i := item{line: number, text: line}
		if columns.entity < len(fields) && strings.TrimSpace(fields[columns.entity]) != "" {
			i.text = fields[columns.entity]
		} else {
			i.reason = "has nothing in the column that holds the entity"
		}
		if columns.category >= 0 && columns.category < len(fields) {
			i.category = fields[columns.category]
		}
		return take(i)
	})
}

// csvColumns says where a CSV file holds what.
type csvColumns struct {
	separator byte
	entity    int
	category  int // -1: nowhere
}

// ErrNoColumn means that it cannot be told which column of a CSV file holds the entities.
var ErrNoColumn = errors.New("no column of the CSV file is called like one that holds domains, URLs, addresses, numbers or IBANs: name it, or give its number")

// findColumns finds the columns by the names in the first line, else in the comment before it, else by what the first
// line holds. isHeader is set when the first line holds names.
func findColumns(first, comment string, o Options) (c *csvColumns, isHeader bool, err error) {
	c = &csvColumns{separator: separator(first), category: -1}
	fields := c.split(first)
	names := lowered(fields)
	isHeader = index(names, entityNames) >= 0 || o.Column != "" &&
		index(names, []string{strings.ToLower(o.Column)}) >= 0
	if !isHeader {
		names = lowered(c.split(comment))
	}
	c.category = index(names, categoryNames)
	switch {
	case o.Column != "" && strings.Trim(o.Column, "0123456789") == "":
		for _, digit := range o.Column {
			c.entity = min(c.entity*10+int(digit-'0'), 1<<20)
		}
		if c.entity--; c.entity < 0 || c.entity >= len(fields) {
			return nil, false, errors.New("column: the file has no column " + o.Column)
		}
	case o.Column != "":
		if c.entity = index(names, []string{strings.ToLower(o.Column)}); c.entity < 0 {
			return nil, false, errors.New("column: the file has none called " + o.Column)
		}
	default:
		if c.entity = index(names, entityNames); c.entity < 0 {
			c.entity = telling(fields)
		}
		if c.entity < 0 {
			return nil, false, ErrNoColumn
		}
	}
	if c.category == c.entity {
		c.category = -1
	}
	return c, isHeader, nil
}

// telling is the first field that can only be an entity: with letters and a dot or an "@", or an IBAN.
func telling(fields []string) int {
	for i, f := range fields {
		kind := entity.Guess(f)
		if kind == entity.Phone && !strings.HasPrefix(strings.TrimSpace(f), "+") || isAddress(strings.TrimSpace(f)) {
			continue
		}
		if _, err := (item{text: f}).entry(""); err == nil {
			return i
		}
	}
	return -1
}

func lowered(fields []string) []string {
	out := make([]string, len(fields))
	for i, f := range fields {
		out[i] = strings.ToLower(strings.TrimSpace(f))
	}
	return out
}

// index is the place in fields of the first of names that is there, or -1.
func index(fields, names []string) int {
	for _, name := range names {
		for i, f := range fields {
			if f == name {
				return i
			}
		}
	}
	return -1
}

// separator is the one of the usual separators that a line holds most of.
func separator(line string) byte {
	best, most := byte(','), 0
	for _, s := range []byte(",;\t|") {
		if n := strings.Count(line, string(s)); n > most {
			best, most = s, n
		}
	}
	return best
}

// split cuts a record by RFC 4180, more lenient with quotes where lists are careless: one inside a bare field is a
// letter.
func (c *csvColumns) split(line string) []string {
	if strings.IndexByte(line, '"') < 0 {
		return strings.Split(line, string(c.separator))
	}
	var fields []string
	for {
		line = strings.TrimLeft(line, " ")
		if !strings.HasPrefix(line, `"`) {
			field, rest, more := strings.Cut(line, string(c.separator))
			if fields = append(fields, field); !more {
				return fields
			}
			line = rest
			continue
		}
		var field strings.Builder
		for line = line[1:]; line != ""; {
			end := strings.IndexByte(line, '"')
			if end < 0 {
				field.WriteString(line)
				line = ""
				break
			}
			field.WriteString(line[:end])
			if line = line[end+1:]; !strings.HasPrefix(line, `"`) {
				break
			}
			field.WriteByte('"')
			line = line[1:]
		}
		fields = append(fields, field.String())
		_, rest, more := strings.Cut(line, string(c.separator))
		if !more {
			return fields
		}
		line = rest
	}
}

// detect tells a format by how a list begins.
func detect(in *bufio.Reader) Format {
	head, _ := in.Peek(4 << 10)
	text := bytes.TrimLeft(head, " \t\r\n")
	if len(text) > 0 && (text[0] == '{' || text[0] == '[' && !bytes.HasPrefix(text, []byte("[Adblock"))) {
		switch {
		case bytes.Contains(head, []byte(`"bundle"`)) || bytes.Contains(head, []byte(`"spec_version"`)):
			return STIX
		case bytes.Contains(head, []byte(`"Event"`)) || bytes.Contains(head, []byte(`"Attribute"`)):
			return MISP
		}
		return JSON
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if comment(line) {
			continue
		}
		fields := strings.Fields(line)
		if _, err := netip.ParseAddr(fields[0]); err == nil && len(fields) > 1 {
			return Hosts
		}
		if strings.ContainsAny(line, ",;\t|") && !strings.HasPrefix(line, "||") &&
			!strings.Contains(strings.SplitN(line, ",", 2)[0], "://") {
			return CSV
		}
		if c := (&csvColumns{separator: ','}); index(lowered(c.split(line)), entityNames) >= 0 {
			return CSV // a header of one column
		}
		return Plain
	}
	return Plain
}
