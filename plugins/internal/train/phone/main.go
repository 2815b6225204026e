// Command train counts the numbers that people reported for unwanted calls, by the block of the numbering plan they lie
// in, and writes what each block is worth for the phone layer. It reads train_phones.jsonl of a folder with labelled
// lines:
//
//	go run ./plugins/internal/train/phone FOLDER > plugins/phone/reported.txt
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "train:", err)
		os.Exit(1)
	}
}

// homes are the sources of reports, with the calling code of the country whose people report to them: their numbers
// without a calling code are that country's.
var homes = map[string]string{"il_spam_vcf2016": "972", "saracroche_operator_ranges": "33"}

// row is one labelled number.
type row struct {
	Value  string `json:"value"`
	Label  int    `json:"label"`
	Source string `json:"source"`
}

func run(args []string, out io.Writer) error {
	if len(args) != 1 {
		return errors.New("give one folder: the one that holds train_phones.jsonl")
	}
	file, err := os.Open(filepath.Join(args[0], "train_phones.jsonl"))
	if err != nil {
		return fmt.Errorf("reading labelled numbers: %w", err)
	}
	defer file.Close()
	reports := map[block]int{}
	for lines := json.NewDecoder(bufio.NewReader(file)); ; {
		var r row
		if err := lines.Decode(&r); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("reading labelled numbers: %w", err)
		}
		count(reports, r)
	}
	return write(out, reports)
}

// block is a run of numbers that begin with the same digits, calling code included. Its last digits are free: wide
// blocks have a million numbers, narrow ones ten thousand, which is what regulators hand out to one operator at a time.
type block struct {
	digits string
	free   int
}

const (
	wide   = 6
	narrow = 4
)

// harmless is how many reports of its block a number without one outweighs.
const harmless = 2

func count(reports map[block]int, r row) {
	code, home := homes[r.Source]
	digits := international(r.Value, code)
	if digits == "" || r.Label == 1 && !home {
		return
	}
	for _, called := range homes {
		national, found := strings.CutPrefix(digits, called)
		if !found || len(national) < 8 || len(national) > 9 || called == "33" && national[0] == '8' {
			continue // numbers of the plans' special ranges have signals of their own
		}
		for _, free := range []int{wide, narrow} {
			if b := (block{digits[:len(digits)-free], free}); r.Label == 1 {
				reports[b]++
			} else {
				reports[b] -= harmless
			}
		}
	}
}

// international gives the digits of a number with its calling code, or "" when neither it nor its source tells the
// code.
func international(value, code string) string {
	digits := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, value)
	if rest, found := strings.CutPrefix(digits, "00"); found {
		return rest
	}
	if strings.HasPrefix(value, "+") {
		return digits
	}
	if code == "" {
		return ""
	}
	return code + strings.TrimPrefix(digits, "0")
}

// Points grow with the reports n as most * n/(n+half): never to where they alone would ask for a review, and a narrow
// block says more with fewer.
const (
	most       = 40
	halfWide   = 4
	halfNarrow = 2
)

// write lists the blocks with their points as "block:points", each ended by one blank or line end, in lines of at most
// 120 bytes.
func write(out io.Writer, reports map[block]int) error {
	w := bufio.NewWriter(out)
	line := ""
	for _, b := range slices.SortedFunc(maps.Keys(reports), func(a, b block) int {
		return cmp.Or(strings.Compare(a.digits, b.digits), b.free-a.free)
	}) {
		n, half := reports[b], halfWide
		if n <= 0 {
			continue
		}
		if b.free == narrow {
			half = halfNarrow
		}
		word := fmt.Sprintf("%s:%d", b.digits, (most*n+(n+half)/2)/(n+half))
		switch {
		case line == "":
			line = word
		case len(line)+1+len(word) > 120:
			fmt.Fprintln(w, line)
			line = word
		default:
			line += " " + word
		}
	}
	fmt.Fprintln(w, line)
	return w.Flush()
}
