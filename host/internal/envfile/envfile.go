// Package envfile reads files of variables, in lines of the form NAME=value.
//
// systemd (EnvironmentFile=), podman and docker (--env-file) read such files too, but quotes, backslashes, blanks
// around a value and empty values mean different things to each. So Parse refuses them, and every accepted line has one
// meaning.
package envfile

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Variable is a line that sets a variable.
type Variable struct {
	Name, Value string
	Line        int // from 1
}

// Parse returns the variables in the text of a file, in order. Each of its errors begins with file and a line.
func Parse(file, text string) ([]Variable, error) {
	var variables []Variable
	var errs []error
	lines := map[string]int{}
	number := 0
	for line := range strings.SplitSeq(text, "\n") {
		number++
		v, err := parseLine(line)
		if first := lines[v.Name]; err == nil && first > 0 {
			err = fmt.Errorf("%s was set in line %d already", v.Name, first)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: %w", file, number, err))
			continue
		}
		if v.Name != "" {
			v.Line, lines[v.Name] = number, number
			variables = append(variables, v)
		}
	}
	return variables, errors.Join(errs...)
}

// parseLine returns a variable without a name for a line that sets none.
func parseLine(line string) (Variable, error) {
	control := func(r rune) bool { return r != '\t' && unicode.IsControl(r) }
	if !utf8.ValidString(line) || strings.ContainsFunc(line, control) {
		return Variable{}, errors.New("it contains a control character, such as that of a Windows line end")
	}
	line = strings.TrimLeft(line, " \t")
	switch {
	case line == "":
		return Variable{}, nil
	case strings.HasPrefix(line, "#") && strings.HasSuffix(line, `\`):
		return Variable{}, errors.New(`a comment must not end in \, which may make the next line a part of it`)
	case strings.HasPrefix(line, "#"):
		return Variable{}, nil
	}
	name, value, found := strings.Cut(line, "=")
	switch {
	case !found || !isName(name):
		return Variable{}, errors.New("it is neither a comment nor of the form NAME=value")
	case value == "":
		return Variable{}, fmt.Errorf("%s has no value: leave the line out for the default", name)
	case strings.ContainsAny(value, `'"\`):
		return Variable{}, fmt.Errorf("%s: quotes and backslashes are refused, because programs read them "+
			"differently: leave them out, or write them as %%27, %%22 and %%5C in a URL", name)
	case strings.Trim(value, " \t") != value:
		return Variable{}, fmt.Errorf("%s: there must be no blanks around the value", name)
	}
	return Variable{Name: name, Value: value}, nil
}

// isName reports whether a text consists of letters, digits and underscores, and does not begin with a digit.
func isName(text string) bool {
	for i, r := range text {
		if r != '_' && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return text != ""
}
