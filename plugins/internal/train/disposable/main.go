// Command disposable writes the fingerprints of the disposable mail domains of package mail: those on two or more
// hand-kept lists. It leaves out popular ones, public suffixes, mailbox providers, privacy relays and their mistypings,
// and every name that has the same fingerprint as an honest row of the labelled domains. Its argument is the folder of
// train_disposable.jsonl.gz and of the files of labelled domains. The same rows give the same bytes:
//
//	go run ./plugins/internal/train/disposable FOLDER > plugins/internal/mail/disposable.bin
package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/net/publicsuffix"

	"assay/host/entity"
	"assay/plugins/internal/fingerprint"
	"assay/plugins/internal/mail"
	"assay/plugins/internal/train"
)

func main() { train.Exit(run(os.Args[1:], os.Stdout, train.NewProgress(os.Stderr))) }

// minCurated is the number of hand-kept lists that must hold a domain. Other lists copy from these.
const minCurated = 2

// row is a line of the files.
type row struct {
	Value   string `json:"value"`
	Label   int    `json:"label"`
	Lists   int    `json:"n_lists"`
	Curated int    `json:"n_curated"`
	Popular bool   `json:"popular"`
}

func run(args []string, out io.Writer, progress train.Progress) error {
	if len(args) != 1 {
		return errors.New("want one argument: the folder that contains train_disposable.jsonl.gz")
	}
	honest := map[uint64]bool{}
	for _, name := range []string{".jsonl", "_pool.jsonl.gz", "_pool2.jsonl.gz"} {
		err := train.EachLine(filepath.Join(args[0], "train_domains"+name), func(r *row) {
			host, site := r.Value, siteOf(r.Value)
			for r.Label == 0 && len(host) >= len(site) && site != "" {
				honest[fingerprint.Of(host)] = true
				_, host, _ = strings.Cut(host, ".")
			}
		})
		if err != nil {
			return err
		}
	}
	lists, why := map[uint64]int{}, map[string]int{}
	err := train.EachLine(filepath.Join(args[0], "train_disposable.jsonl.gz"), func(r *row) {
		if r.Curated < minCurated {
			return
		}
		printed, reason := fingerprint.Of(r.Value), reasonAgainst(r)
		if reason == "" && honest[printed] {
			reason = "honest"
		}
		if why[reason]++; reason == "" {
			lists[printed] = max(r.Lists, lists[printed])
		}
	})
	if err != nil {
		return err
	}
	progress("%d fingerprints; domains by the reason that left them out: %v", len(lists), why)
	_, err = io.WriteString(out, string(fingerprint.Encode(lists)))
	return err
}

// reasonAgainst says why a listed domain is left out, or returns "".
func reasonAgainst(r *row) string {
	suffix, _ := publicsuffix.PublicSuffix(r.Value)
	parsed, err := entity.Parse(entity.Email, "a@"+r.Value, "")
	switch {
	case r.Popular:
		return "popular"
	case err != nil || siteOf(r.Value) == "":
		return "no mail domain"
	case parsed.Facts["email.provider"] != "" || mail.Provider(r.Value) != "":
		return "provider"
	case mail.Relay(r.Value) != "":
		return "relay"
	case mail.FindSlip(r.Value, suffix, false).Meant != "":
		return "mistyped provider"
	}
	return ""
}

// siteOf returns the registrable domain of host, or "".
func siteOf(host string) string {
	site, _ := publicsuffix.EffectiveTLDPlusOne(host) // "" with an error
	return site
}
