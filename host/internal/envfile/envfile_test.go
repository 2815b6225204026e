package envfile

import (
	"bufio"
	"cmp"
	"fmt"
	"maps"
	"strings"
	"testing"

	"assay/registry/expect"
)

func TestParse(t *testing.T) {
	t.Parallel()
	type testCase struct {
		text string
		want []Variable
		err  string
	}
	expect.Each(t, map[string]testCase{
		"nothing":                  {"", nil, ""},
		"comments and empty lines": {"# one\n\n \t\n  # two\nA=1\n", []Variable{{"A", "1", 5}}, ""},
		"no line end":              {"A=1", []Variable{{"A", "1", 1}}, ""},
		"all letters":              {"az_AZ09=1", []Variable{{"az_AZ09", "1", 1}}, ""},
		"indented":                 {"\tA=1\n", []Variable{{"A", "1", 1}}, ""},
		"what is in a value": {"URL=postgres://u:p%27w@h:5432/d?a=b#c\nREASON=two words # $HOME\n",
			[]Variable{{"URL", "postgres://u:p%27w@h:5432/d?a=b#c", 1}, {"REASON", "two words # $HOME", 2}}, ""},

		"twice": {"A=1\nB=1\nA=1\n", []Variable{{"A", "1", 1}, {"B", "1", 2}}, "f:3: A was set in line 1 already"},
		"all errors": {"A\nB=1\n=\n", []Variable{{"B", "1", 2}},
			"f:1: it is neither a comment nor of the form NAME=value\n" +
				"f:3: it is neither a comment nor of the form NAME=value"},
		"export":               {"export A=1", nil, "f:1: it is neither"},
		"digit":                {"1A=1", nil, "f:1: it is neither"},
		"another comment":      {"; A", nil, "f:1: it is neither"},
		"blank before =":       {"A =1", nil, "f:1: it is neither"},
		"byte order mark":      {"\ufeffA=1", nil, "f:1: it is neither"},
		"empty value":          {"A=", nil, "f:1: A has no value"},
		"double quotes":        {`A="1"`, nil, "f:1: A: quotes and backslashes are refused"},
		"single quotes":        {`A='1'`, nil, "f:1: A: quotes and backslashes are refused"},
		"quote inside":         {`A=it's`, nil, "f:1: A: quotes and backslashes are refused"},
		"continuation":         {"A=1\\\n2", nil, "f:1: A: quotes and backslashes are refused"},
		"comment that goes on": {"# C:\\\nA=1", []Variable{{"A", "1", 2}}, `f:1: a comment must not end in \`},
		"blank after =":        {"A= 1", nil, "f:1: A: there must be no blanks"},
		"blank at the end":     {"A=1 ", nil, "f:1: A: there must be no blanks"},
		"Windows":              {"A=1\r\n", nil, "f:1: it contains a control character"},
		"zero":                 {"A=\x00", nil, "f:1: it contains a control character"},
		"not UTF-8":            {"A=\xff", nil, "f:1: it contains a control character"},
	}, func(t *testing.T, test testCase) {
		got, err := Parse("f", test.text)
		expect.NoDiff(t, "variables", test.want, got)
		expect.That(t, strings.HasPrefix(fmt.Sprint(err), cmp.Or(test.err, "<nil>")), "%v, want %q", err, test.err)
	})
}

// FuzzParse checks that systemd and podman read the same variables from each file that Parse accepts.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"", "A=1\n# b\nC=d e\n", "A='1'", "A=\"1\\\"", "# \\\nA=1",
		"# a\\b\nA=1", "A=1\\\nB=2",
		" A = 1 ", "A=\r\n", "A=1#2", "A==", "A=ä", ";A=1", "A\nB=1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		variables, err := Parse("f", text)
		if err != nil {
			return
		}
		got := map[string]string{}
		for _, v := range variables {
			got[v.Name] = v.Value
		}
		expect.Must(t, len(got) == len(variables), "a variable is there twice: %v", variables)
		for program, want := range map[string]map[string]string{"systemd": systemd(text), "podman": podman(text)} {
			expect.That(t, maps.Equal(got, want), "%q gives %v, but %s reads %v", text, got, program, want)
		}
	})
}

// podman reads a file as podman 4 and docker do.
func podman(text string) map[string]string {
	variables := map[string]string{}
	for scanner := bufio.NewScanner(strings.NewReader(text)); scanner.Scan(); {
		line := strings.TrimLeft(scanner.Text(), " \t")
		if line == "" || line[0] == '#' {
			continue
		}
		// A line without = would take the variable from the environment.
		name, value, _ := strings.Cut(line, "=")
		variables[name] = value
	}
	return variables
}

// systemd reads a file as systemd 252 does: values are unquoted, backslashes escape, and lines can go on in the next.
func systemd(text string) map[string]string {
	const blank, newline = " \t\n\r", "\n\r"
	variables := map[string]string{}
	var name, value, trailing strings.Builder // trailing: blanks that belong to the value if more of it follows
	end := func() {
		variables[strings.TrimRight(name.String(), blank)] = value.String()
		name.Reset()
		value.Reset()
		trailing.Reset()
	}
	const (
		start = iota
		inName
		beforeValue
		inValue
		escaped
		single
		double
		doubleEscaped
		comment
		commentEscaped
	)
	state := start
	for i := range len(text) {
		c := text[i]
		is := func(set string) bool { return strings.IndexByte(set, c) >= 0 }
		switch {
		case state == start && is("#;"):
			state = comment
		case state == start && is(blank):
		case state == start:
			state = inName
			name.WriteByte(c)
		case state == inName && is(newline):
			state = start
			name.Reset()
		case state == inName && c == '=':
			state = beforeValue
		case state == inName:
			name.WriteByte(c)
		case (state == beforeValue || state == inValue) && is(newline):
			state = start
			end()
		case (state == beforeValue || state == inValue) && c == '\\':
			state = escaped
		case state == beforeValue && c == '\'':
			state = single
		case state == beforeValue && c == '"':
			state = double
		case state == beforeValue && is(blank):
		case state == inValue && is(blank):
			trailing.WriteByte(c)
		case state == escaped && is(newline):
			state = inValue
		case state == beforeValue, state == inValue, state == escaped:
			state = inValue
			value.WriteString(trailing.String())
			trailing.Reset()
			value.WriteByte(c)
		case state == single && c == '\'', state == double && c == '"':
			state = beforeValue
		case state == double && c == '\\':
			state = doubleEscaped
		case state == doubleEscaped && c == '\n':
			state = double
		case state == single:
			value.WriteByte(c)
		case state == double, state == doubleEscaped:
			state = double
			value.WriteByte(c)
		case state == comment && c == '\\':
			state = commentEscaped
		case state == comment && is(newline):
			state = start
		case state == commentEscaped:
			state = comment
		}
	}
	if state != start && state != inName && state != comment && state != commentEscaped {
		end()
	}
	return variables
}
