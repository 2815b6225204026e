package docs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// snippets returns the programs that make a request, as tabs.
func (o operation) snippets(example string) string {
	c := calls[o.ID]
	var b strings.Builder
	if strings.HasPrefix(o.path, "/") {
		b.WriteString(fenced("sh", o.curl(c, example)))
	}
	if c.see != "" {
		return b.String() + c.see + "\n\n"
	}
	return b.String() + fenced("go", c.goProgram()) + fenced("ts", c.tsProgram()) + fenced("python", c.pythonProgram())
}

func fenced(language, code string) string { return fmt.Sprintf("```%s\n%s\n```\n\n", language, code) }

// curl returns a command whose placeholders are variables of the shell.
func (o operation) curl(c call, example string) string {
	address := Host + strings.NewReplacer("{ref}", "REF", "{id}", "REQUEST").Replace(o.path) + c.query
	body := c.body
	if body == "" && example != "" {
		var text bytes.Buffer
		if err := json.Compact(&text, []byte(example)); err != nil {
			panic(err) // it was indented
		}
		body = text.String()
	}
	var lines []string
	if strings.ContainsAny(address, "?&") || strings.Contains(address, "RE") {
		lines = append(lines, `curl "`+strings.NewReplacer("REF", "$ASSAY_REF", "REQUEST", "$ASSAY_REQUEST",
			"OVERRIDE", "$ASSAY_OVERRIDE").Replace(address)+`"`)
	} else {
		lines = append(lines, "curl "+address)
	}
	if o.method == "DELETE" {
		lines[0] = strings.Replace(lines[0], "curl", "curl -X DELETE", 1)
	}
	if len(o.Security) > 0 {
		lines = append(lines, `-H "Authorization: Bearer $ASSAY_KEY"`)
	}
	if body != "" {
		lines = append(lines, "-d '"+strings.NewReplacer(`"REF"`, `"'"$ASSAY_REF"'"`,
			"TOMORROW", `'"$(date -u -d tomorrow +%FT%TZ)"'`).Replace(body)+"'")
	}
	return strings.Join(lines, " \\\n  ")
}

func (c call) goProgram() string {
	program := "assay := client.New(\"" + Host + "\", os.Getenv(\"ASSAY_KEY\"))\n"
	program += given(c.golang, "%s := os.Getenv(%q)\n")
	switch {
	case c.kind == "none":
		return program + "return " + c.golang
	case c.kind == "each":
		return program + "for one, err := range " + c.golang +
			" {\n\tif err != nil {\n\t\treturn err\n\t}\n\tfmt.Printf(\"%+v\\n\", one)\n}"
	}
	format := "%+v"
	if regexp.MustCompile("Export|Receipt|SubjectRef").MatchString(c.golang) { // they return texts
		format = "%s"
	}
	return program + "result, err := " + c.golang + "\nif err != nil {\n\treturn err\n}\nfmt.Printf(\"" + format +
		"\\n\", result)"
}

func (c call) tsProgram() string {
	program := "import { Client } from \"assay-client\";\n\n" +
		"const assay = new Client(\"" + Host + "\", process.env.ASSAY_KEY!);\n"
	program += given(c.ts, "const %s = process.env.%s!;\n")
	switch c.kind {
	case "none":
		return program + "await " + c.ts + ";"
	case "each":
		return program + "for await (const one of " + c.ts + ") console.log(one);"
	}
	return program + "console.log(await " + c.ts + ");"
}

func (c call) pythonProgram() string {
	program := "import os\nfrom assay import Client\n"
	if strings.Contains(c.python, "datetime") {
		program = "import os\nfrom datetime import UTC, datetime, timedelta\nfrom assay import Client\n"
	}
	program += "\nassay = Client(\"" + Host + "\", os.environ[\"ASSAY_KEY\"])\n"
	program += given(c.python, "%s = os.environ[%q]\n")
	switch c.kind {
	case "none":
		return program + c.python
	case "each":
		return program + "for one in " + c.python + ":\n    print(one)"
	}
	return program + "print(" + c.python + ")"
}

// variables are the names that calls refer to, with the variables of the environment that have their values.
var variables = []struct{ name, variable string }{{"ref", "ASSAY_REF"}, {"id", "ASSAY_OVERRIDE"}}

// given returns a line for each variable that code refers to.
func given(code, line string) (lines string) {
	for _, v := range variables {
		if regexp.MustCompile(`[^.\w"]` + v.name + `(\W|$)`).MatchString(strings.ReplaceAll(code, `"ref":`, "")) {
			lines += fmt.Sprintf(line, v.name, v.variable)
		}
	}
	return lines
}
