// Command banks prints the known bank codes of package bank. It reads the codes from the folder
// bank_registry of a checkout of schwifty (github.com/mdomke/schwifty, MIT licence), a collection of the lists
// published by central banks and payment associations:
//
//	go run ./plugins/internal/train/banks ../schwifty/schwifty/bank_registry > plugins/internal/bank/banks.txt
//
// The file in this repository was generated from commit 23462330ec05 of 23 July 2026.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/plugins/internal/train"
)

func main() { train.Exit(run(os.Args[1:], os.Stdout)) }

// additional are codes in use that the folder lacks, found in published account numbers.
var additional = map[string][]string{
	"EE": {"17"},                // Luminor, formerly Nordea
	"ES": {"9000"},              // Banco de España, where the tax office and other public bodies have accounts
	"RS": {"205", "275", "908"}, // Komercijalna banka, OTP banka, the National Bank's transit account
}

// minCodes is the minimum number of codes of a country. Shorter lists are incomplete.
const minCodes = 10

func run(args []string, out io.Writer) error {
	if len(args) != 1 {
		return errors.New("want one argument: the folder bank_registry of schwifty")
	}
	files, err := filepath.Glob(filepath.Join(args[0], "*.json"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("reading %s: no JSON files found", args[0])
	}
	known := map[string]map[string]bool{}
	for country, codes := range additional {
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

// entry is a bank. It has one code, or many in the second version of the file format.
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

// write lists the codes with their country as a prefix, in the format of wordlist.Has.
func write(out io.Writer, known map[string]map[string]bool) error {
	var words []string
	for _, country := range slices.Sorted(maps.Keys(known)) {
		if len(known[country]) < minCodes {
			continue
		}
		for _, code := range slices.Sorted(maps.Keys(known[country])) {
			word := country + code
			if strings.Trim(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") != "" {
				return fmt.Errorf("writing codes: %q is not a bank code", word)
			}
			words = append(words, word)
		}
	}
	return train.WriteWords(out, words)
}
