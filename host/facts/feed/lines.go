package feed

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"assay/host/entity"
)

// eachLine calls fn for every line with its number, starting at 1, and comment for comments. It skips empty lines, and
// treats lines longer than maxLine as malformed.
func eachLine(in *bufio.Reader, take func(item) error, comment func(line string),
	fn func(number int64, line string) error) error {
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
		var failed error
		switch trimmed := strings.TrimSpace(line); {
		case line == "":
		case isComment(trimmed):
			comment(trimmed)
		case cut:
			failed = take(item{line: number, text: trimmed, malformed: tooLong})
		default:
			failed = fn(number, line)
		}
		if failed != nil || ended {
			return failed
		}
	}
}

const tooLong = "is longer than 64 KiB"

// isComment reports whether a line is empty or a comment in a usual list format: shell, INI, or an ad blocker's.
func isComment(line string) bool {
	return line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") || strings.HasPrefix(line, "!") ||
		strings.HasPrefix(line, "//") || strings.HasPrefix(line, "[Adblock")
}

func ignore(string) {}

// cutComment removes a comment that begins with '#' after white space. A '#' within a word may be part of a URL.
func cutComment(line string) string {
	for i := 1; i < len(line); i++ {
		if line[i] == '#' && (line[i-1] == ' ' || line[i-1] == '\t') {
			return strings.TrimSpace(line[:i])
		}
	}
	return line
}

// readHosts reads lines of an address and host names. It also accepts a host name without an address.
func readHosts(in *bufio.Reader, _ Options, take func(item) error) error {
	return eachLine(in, take, ignore, func(number int64, line string) error {
		line = strings.TrimSpace(line)
		fields := strings.Fields(cutComment(line))
		if _, err := netip.ParseAddr(fields[0]); err != nil {
			if len(fields) > 1 {
				return take(item{line: number, text: line, malformed: "does not begin with an address"})
			}
			fields = append([]string{""}, fields...) // many lists have names without an address
		}
		if len(fields) == 1 {
			return take(item{line: number, text: line, malformed: "has no host name"})
		}
		for _, name := range fields[1:] {
			if err := take(item{line: number, text: name, kind: entity.Domain, skip: isLocalHost(name)}); err != nil {
				return err
			}
		}
		return nil
	})
}

// isLocalHost reports whether a hosts file uses a name for the machine itself or its networks.
func isLocalHost(name string) bool {
	_, err := netip.ParseAddr(name)
	return err == nil || !strings.Contains(name, ".") || strings.HasSuffix(name, ".localdomain") ||
		strings.HasSuffix(name, ".local")
}

// readPlain reads one item per line.
func readPlain(in *bufio.Reader, _ Options, take func(item) error) error {
	return eachLine(in, take, ignore, func(number int64, line string) error {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "@@") {
			return take(item{line: number, text: line, skip: true}) // an ad blocker's exception
		}
		line = cutComment(line)
		if host, found := strings.CutPrefix(line, "||"); found {
			host, options, _ := strings.Cut(host, "^")
			if strings.ContainsAny(host, "/*") || options != "" && !strings.HasPrefix(options, "$") {
				return take(item{line: number, text: line,
					malformed: "is an ad blocker's rule for less than a whole host"})
			}
			line = host
		}
		return take(item{line: number, text: line})
	})
}

// Names of the column or member with the entity, and of the one with its category, in order of preference.
var (
	entityNames = []string{
		"domain", "domains", "host", "hosts", "hostname", "fqdn", "url", "urls", "email", "emails", "e-mail", "address",
		"phone", "phones", "number", "iban", "ibans", "indicator", "ioc", "ioc_value", "value", "entity", "blacklist",
		"blocklist", "denylist", "name",
	}
	rankNames     = []string{"rank", "globalrank", "global_rank", "position"}
	categoryNames = []string{"threat", "category", "threat_type", "classification", "type", "tags"}
)

// readCSV reads one record per line. Published lists have no line breaks within quotes, and a stray quote must not
// swallow the rest of the list.
func readCSV(in *bufio.Reader, o Options, take func(item) error) error {
	var columns *csvColumns
	var header string // the last comment, which may name the columns
	comment := func(line string) { header = strings.TrimLeft(line, "#; \t") }
	return eachLine(in, take, comment, func(number int64, line string) error {
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
			i.text = strings.Clone(fields[columns.entity]) // without the rest of the line
		} else {
			i.malformed = "has an empty entity column"
		}
		if columns.category >= 0 && columns.category < len(fields) {
			i.category = strings.Clone(fields[columns.category])
		}
		if o.Ranked && i.malformed == "" {
			i.rankAs(columns.rankIn(fields))
		}
		return take(i)
	})
}

// csvColumns is the layout of a CSV file.
type csvColumns struct {
	separator byte
	entity    int
	category  int // -1 if there is none
	rank      int // -1 if there is none
}

// rankIn returns the rank in a record, or 0 if it has none.
func (c *csvColumns) rankIn(fields []string) int32 {
	if c.rank < len(fields) {
		if rank, err := strconv.ParseInt(strings.TrimSpace(fields[c.rank]), 10, 32); err == nil && rank > 0 {
			return int32(rank)
		}
	}
	return 0
}

// rankAs makes an item a domain with a rank. It skips top-level domains, which Umbrella ranks too.
func (i *item) rankAs(rank int32) {
	i.rank, i.kind = rank, entity.Domain
	i.skip = !strings.Contains(strings.Trim(i.text, "."), ".")
	if rank == 0 {
		i.malformed = "has no rank"
	}
}

// ErrNoColumn means that the column with the entities could not be determined.
var ErrNoColumn = errors.New("no column of the CSV file has a name known for entities, such as domain, url or email: " +
	"specify its name or number")

var errNoRank = errors.New("no column of the CSV file has the name rank or starts with a number")

// findColumns determines the columns from the names in the first line, otherwise from those in the comment before it,
// otherwise from the values in the first line. It reports whether the first line is a header.
func findColumns(first, comment string, o Options) (c *csvColumns, isHeader bool, err error) {
	c = &csvColumns{separator: separator(first), category: -1, rank: -1}
	fields := c.split(first)
	names := lowerAll(fields)
	isHeader = indexOfAny(names, entityNames) >= 0 ||
		o.Column != "" && slices.Contains(names, strings.ToLower(o.Column))
	if !isHeader {
		names = lowerAll(c.split(comment))
	}
	c.category = indexOfAny(names, categoryNames)
	if o.Ranked {
		if c.rank = indexOfAny(names, rankNames); c.rank < 0 {
			c.rank = slices.IndexFunc(fields, isNumber)
		}
		if c.rank < 0 {
			return nil, false, errNoRank
		}
	}
	switch {
	case o.Column != "" && strings.Trim(o.Column, "0123456789") == "":
		for _, digit := range o.Column {
			c.entity = min(c.entity*10+int(digit-'0'), 1<<20)
		}
		if c.entity--; c.entity < 0 || c.entity >= len(fields) {
			return nil, false, errors.New("column: the file has no column " + o.Column)
		}
	case o.Column != "":
		if c.entity = slices.Index(names, strings.ToLower(o.Column)); c.entity < 0 {
			return nil, false, errors.New("column: the file has no column named " + o.Column)
		}
	default:
		if c.entity = indexOfAny(names, entityNames); c.entity < 0 {
			c.entity = firstEntity(fields)
		}
		if c.entity < 0 && o.Ranked { // the first record may be a top-level domain
			c.entity = slices.IndexFunc(fields, func(f string) bool { return !isNumber(f) })
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

// firstEntity returns the index of the first field that is certainly an entity, or -1. Bare numbers and IP addresses
// are not.
func firstEntity(fields []string) int {
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

func isNumber(field string) bool {
	_, err := strconv.ParseUint(strings.TrimSpace(field), 10, 32)
	return err == nil
}

// lowerAll returns the fields in lower case, without surrounding white space.
func lowerAll(fields []string) []string {
	out := make([]string, len(fields))
	for i, f := range fields {
		out[i] = strings.ToLower(strings.TrimSpace(f))
	}
	return out
}

// indexOfAny returns the index in fields of the first of names that is present, or -1.
func indexOfAny(fields, names []string) int {
	for _, name := range names {
		if i := slices.Index(fields, name); i >= 0 {
			return i
		}
	}
	return -1
}

// separator returns the usual separator that occurs most often in a line.
func separator(line string) byte {
	best, most := byte(','), 0
	for _, s := range []byte(",;\t|") {
		if n := strings.Count(line, string(s)); n > most {
			best, most = s, n
		}
	}
	return best
}

// split splits a record as RFC 4180 does, except that a quote within an unquoted field is an ordinary character.
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

// detect returns the likely format of a list.
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
		if isComment(line) {
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
		if c := (&csvColumns{separator: ','}); indexOfAny(lowerAll(c.split(line)), entityNames) >= 0 {
			return CSV // a header with one column
		}
		return Plain
	}
	return Plain
}
