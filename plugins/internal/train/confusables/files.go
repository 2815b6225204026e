package main

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// unicodeData holds the properties of characters that the tables need.
type unicodeData struct {
	version    string            // of UTS 39
	prototypes map[rune]string   // confusables.txt: each character's skeleton (UTS 39, section 4)
	allowed    map[rune]bool     // IdentifierStatus.txt: letters in use in modern languages (UTS 39, section 3.1)
	scripts    map[rune][]string // Script_Extensions; none for Common and Inherited (UTS 39, section 5.1)
}

var versionLine = regexp.MustCompile(`(?m)^# Version: ([0-9.]+)\s*$`)

// readUnicode reads the texts of the four data files.
func readUnicode(confusables, status, scripts, extensions string) (*unicodeData, error) {
	d := &unicodeData{prototypes: map[rune]string{}, allowed: map[rune]bool{}, scripts: map[rune][]string{}}
	version := versionLine.FindStringSubmatch(confusables)
	if version == nil {
		return nil, fmt.Errorf("reading confusables.txt: there is no version line")
	}
	d.version = version[1]
	return d, cmp.Or(eachLine("confusables.txt", confusables, 3, func(r rune, fields []string) error {
		target := ""
		for code := range strings.FieldsSeq(fields[1]) {
			to, err := codePoint(code)
			if err != nil {
				return err
			}
			target += string(to)
		}
		d.prototypes[r] = target
		return nil
	}), eachLine("IdentifierStatus.txt", status, 2, func(r rune, fields []string) error {
		d.allowed[r] = fields[1] == "Allowed"
		return nil
	}), eachLine("Scripts.txt", scripts, 2, func(r rune, fields []string) error {
		if fields[1] != "Common" && fields[1] != "Inherited" {
			d.scripts[r] = []string{fields[1]}
		}
		return nil
	}), eachLine("ScriptExtensions.txt", extensions, 2, func(r rune, fields []string) error {
		d.scripts[r] = strings.Fields(fields[1])
		return nil
	}))
}

func codePoint(text string) (rune, error) {
	r, err := strconv.ParseUint(text, 16, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is not a code point", text)
	}
	return rune(r), nil
}

// eachLine calls visit with each code point and the fields of every line of a UCD file (UAX 44, section 4.2). A line
// with fewer than the given number of fields is an error.
func eachLine(name, text string, fields int, visit func(r rune, fields []string) error) error {
	lines := 0
	for n, line := range strings.Split(strings.TrimPrefix(text, "\ufeff"), "\n") {
		line, _, _ = strings.Cut(line, "#")
		if strings.TrimSpace(line) == "" {
			continue
		}
		parts := strings.Split(line, ";")
		if len(parts) < fields {
			return fmt.Errorf("reading %s: line %d has %d fields, want %d", name, n+1, len(parts), fields)
		}
		for i := range parts {
			parts[i] = strings.TrimSpace(parts[i])
		}
		from, to, _ := strings.Cut(parts[0], "..")
		first, err := codePoint(from)
		last, wrong := codePoint(cmp.Or(to, from))
		err = cmp.Or(err, wrong)
		for r := first; r <= last && err == nil; r++ {
			err = visit(r, parts)
		}
		if err != nil {
			return fmt.Errorf("reading %s: line %d: %w", name, n+1, err)
		}
		lines++
	}
	if lines == 0 {
		return fmt.Errorf("reading %s: there is no data", name)
	}
	return nil
}
