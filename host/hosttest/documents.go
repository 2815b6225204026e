package hosttest

import (
	"fmt"
	"regexp"

	"assay/host/internal/plot"
)

// Thousands returns a number as documents show it, such as 1,500.
func Thousands[T int | int64](n T) string {
	return plot.Thousands(fmt.Sprint(n))
}

// Fenced matches a fenced block of a document, with its language and its text.
var Fenced = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")

// ProgramOrder lists the languages of the guide's snippets in the order of their tabs.
var ProgramOrder = []string{"sh", "go", "ts", "python"}
