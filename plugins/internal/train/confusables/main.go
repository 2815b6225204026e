// Command confusables generates the domain layer's tables of characters that look like ASCII and of the scripts of
// characters, from data files of the Unicode Character Database (UCD) and of Unicode Technical Standard 39:
//
//	go run ./plugins/internal/train/confusables -confusables confusables.txt -status IdentifierStatus.txt \
//		-scripts Scripts.txt -extensions ScriptExtensions.txt -out plugins/domain/unicode.go
//
// The tables contain only characters that UTS 46 allows in labels, as package entity parses them. The same files
// produce the same bytes.
package main

import (
	"flag"
	"fmt"
	"os"

	"assay/plugins/internal/train"
	"assay/registry/fault"
)

func main() { train.Exit(run(os.Args[1:])) }

func run(args []string) error {
	flags := flag.NewFlagSet("confusables", flag.ContinueOnError)
	paths := [...]*string{
		flags.String("confusables", "", "`file` confusables.txt of UTS 39"),
		flags.String("status", "", "`file` IdentifierStatus.txt of UTS 39"),
		flags.String("scripts", "", "`file` Scripts.txt of the UCD"),
		flags.String("extensions", "", "`file` ScriptExtensions.txt of the UCD"),
	}
	out := flags.String("out", "", "`file` to write")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var texts [len(paths)]string
	for i, path := range paths {
		text, err := os.ReadFile(*path)
		if err != nil {
			return fmt.Errorf("reading the Unicode data: %w", err)
		}
		texts[i] = string(text)
	}
	u, err := readUnicode(texts[0], texts[1], texts[2], texts[3])
	if err != nil {
		return err
	}
	source, err := u.goSource()
	if err != nil {
		return err
	}
	err = os.WriteFile(*out, source, 0o644) //nolint:gosec // source code is not secret
	return fault.Wrap(err, "writing the tables")
}
