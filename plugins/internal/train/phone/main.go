// Command phone learns which blocks of numbers the numbering layer treats as reported. It counts the numbers reported
// for unwanted calls in train_phones.jsonl of a folder of labelled rows, by block of the numbering plan, and prints the
// points of each block:
//
//	go run ./plugins/internal/train/phone FOLDER > plugins/numbering/reported.txt
//
// With -rows it writes the rows to a file instead, each with the score of a numbering layer that counted neither its
// source nor numbers that share its first six characters.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/host/entity"
	"assay/host/measure/eval"
	"assay/plugins/internal/train"
)

func main() { train.Exit(run(os.Args[1:], os.Stdout)) }

// callingCodes are the calling codes of the countries of sources with reports. The numbers of such a source that lack a
// calling code are numbers of its country.
var callingCodes = map[string]string{"il_spam_vcf2016": "972", "saracroche_operator_ranges": "33"}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("train", flag.ContinueOnError)
	flags.SetOutput(out)
	held := flags.String("rows", "", "write the rows with held-out scores to this `file`, and print nothing")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("want one argument: the folder that contains train_phones.jsonl")
	}
	rows, err := train.ReadRows(filepath.Join(flags.Arg(0), "train_phones.jsonl"), entity.Phone)
	if err != nil {
		return err
	}
	if *held != "" {
		return holdOut(*held, rows)
	}
	return learn(out, rows, func(int) bool { return true })
}

// learn counts the reports of the rows for which keep returns true, and writes the points of each block.
func learn(out io.Writer, rows []eval.Row, keep func(i int) bool) error {
	reports := map[block]int{}
	for i, r := range rows {
		if keep(i) {
			count(reports, r)
		}
	}
	return write(out, reports)
}

// holdOut writes rows with their scores by layers that were trained without them.
func holdOut(path string, rows []eval.Row) error {
	layers, err := train.NewLayers(rows)
	if err != nil {
		return err
	}
	labelled := make([]train.Labelled, len(rows))
	for i, r := range rows {
		// Only one source has honest numbers, and some of its numbers are malicious.
		labelled[i] = train.Labelled{Source: r.Source, Split: r.Source == "libphonenumber_constructed",
			Letters: eval.Letters("+" + international(r.Value, callingCodes[r.Source]))}
	}
	scores := make([]map[string]int, len(rows))
	for _, fold := range train.Folds(labelled) {
		var table strings.Builder
		err := learn(&table, rows, func(i int) bool { return fold.Allows(labelled[i].Source, labelled[i].Letters) })
		if err != nil {
			return err
		}
		got, err := layers.Score("numbering", map[string]string{"reported.txt": table.String()})
		if err != nil {
			return err
		}
		for _, i := range fold.Test {
			if got[i] != nil {
				scores[i] = map[string]int{"numbering": *got[i]}
			}
		}
	}
	return train.WriteRows(path, rows, func(i int) map[string]int { return scores[i] })
}

// block is a range of numbers that start with the same digits, including the calling code. A wide block has a million
// numbers. A narrow one has ten thousand, the unit that regulators assign to operators.
type block struct {
	digits string
	free   int // number of digits that follow
}

const (
	wide   = 6
	narrow = 4
)

// benignWeight is the number of reports in a block that one benign number cancels.
const benignWeight = 2

func count(reports map[block]int, r eval.Row) {
	code, hasReports := callingCodes[r.Source]
	digits := international(r.Value, code)
	if digits == "" || r.Malicious && !hasReports {
		return
	}
	for _, code := range callingCodes {
		national, found := strings.CutPrefix(digits, code)
		if !found || len(national) < 8 || len(national) > 9 || code == "33" && national[0] == '8' {
			continue // the layer has separate signals for special ranges
		}
		for _, free := range []int{wide, narrow} {
			if b := (block{digits[:len(digits)-free], free}); r.Malicious {
				reports[b]++
			} else {
				reports[b] -= benignWeight
			}
		}
	}
}

// international returns the digits of a number including its calling code, or "" if the code is unknown. code is the
// calling code of the number's source, or "".
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

// A block with n reports has maxPoints*n/(n+half) points.
const (
	maxPoints  = 40
	halfWide   = 4
	halfNarrow = 2
)

// write lists the blocks with reports as words "block:points".
func write(out io.Writer, reports map[block]int) error {
	var words []string
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
		words = append(words, fmt.Sprintf("%s:%d", b.digits, (maxPoints*n+(n+half)/2)/(n+half)))
	}
	return train.WriteWords(out, words)
}
