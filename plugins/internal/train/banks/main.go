// Command banks writes the known bank codes that the iban layer embeds. It reads the folder bank_registry of a checkout
// of schwifty (github.com/mdomke/schwifty, MIT licence), which gathers the lists that central banks and payment
// associations publish, and takes nothing but the codes:
//
//	go run ./plugins/internal/train/banks ../schwifty/schwifty/bank_registry > plugins/iban/banks.txt
//
// The file in this repository was made from commit 23462330ec05 of 23 July 2026.
package main

import (
	"bufio"
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
		fmt.Fprintln(os.Stderr, "banks:", err)
		os.Exit(1)
	}
}

// missed are codes in use that the folder lacks, each found on accounts that their holders publish.
var missed = map[string][]string{
	"EE": {"17"},                // Luminor, before it Nordea
	"RS": {"205", "275", "908"}, // Komercijalna banka, OTP banka, the National Bank's transit account
}

// least is the fewest codes of a country that tell anything: shorter lists hold what one person needed.
const least = 10

func run(args []string, out io.Writer) error {
	if len(args) != 1 {
		return errors.New("give one folder: schwifty's bank_registry")
	}
	files, err := filepath.Glob(filepath.Join(args[0], "*.json"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("reading %s: no JSON files in it", args[0])
	}
	known := map[string]map[string]bool{}
	for country, codes := range missed {
		add(known, country, codes)
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("reading codes: %w", err)
		}
		entries, err := decode(data)
		if err != nil {
			return fmt.Errorf("reading codes of %s: %w", filepath.Base(path), err)
		}
		for _, e := range entries {
			add(known, e.Country, append(e.Codes, e.Code))
		}
	}
	return write(out, known)
}

// entry is one bank, with one code or, in the files' second format, with many.
type entry struct {
	Country string   `json:"country_code"`
	Code    string   `json:"bank_code"`
	Codes   []string `json:"bank_codes"`
}

func decode(data []byte) ([]entry, error) {
	var list []entry
	if json.Unmarshal(data, &list) == nil {
		return list, nil
	}
	var wrapped struct {
		Entries []entry `json:"entries"`
	}
	err := json.Unmarshal(data, &wrapped)
	return wrapped.Entries, err
}

func add(known map[string]map[string]bool, country string, codes []string) {
	if known[country] == nil {
		known[country] = map[string]bool{}
	}
	for _, code := range codes {
		if code != "" {
			known[country][code] = true
		}
	}
}

// write lists country and code joined, in the form that wordlist.Has searches, in lines of at most 120 bytes.
func write(out io.Writer, known map[string]map[string]bool) error {
	w := bufio.NewWriter(out)
	line := ""
	for _, country := range slices.Sorted(maps.Keys(known)) {
		if len(known[country]) < least {
			continue
		}
		for _, code := range slices.Sorted(maps.Keys(known[country])) {
			word := country + code
			if strings.Trim(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") != "" {
				return fmt.Errorf("writing codes: %q is no bank code", word)
			}
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
	}
	fmt.Fprintln(w, line)
	return w.Flush()
}
