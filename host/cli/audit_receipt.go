package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"assay/host/audit"
	"assay/host/audit/witness"
	"assay/host/internal/terminal"
	"assay/sdk/receipt"
)

type auditReceiptCmd struct {
	File       string   `arg:"" type:"existingfile" help:"Receipt, as GET /api/receipts/{ref} returns it."`
	PublicKey  string   `required:"" type:"existingfile" placeholder:"FILE" help:"${receipt_public_key}"`
	WitnessKey []string `placeholder:"KEY" help:"${receipt_witness}"`
	Log        string   `placeholder:"URL" help:"${receipt_log}"`
	terminal.Output
}

// Run verifies a receipt. It needs no installation.
func (cmd *auditReceiptCmd) Run(ctx context.Context, t *terminal.Terminal) error {
	key, err := readPublicKey(cmd.PublicKey)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(cmd.File)
	if err != nil {
		return err
	}
	r, err := receipt.Parse(text)
	if err != nil {
		return fmt.Errorf("%s: %w", cmd.File, err)
	}
	var witnesses []witness.Verifier
	for _, line := range cmd.WitnessKey {
		w, err := witness.ParseVerifier(line)
		if err != nil {
			return err
		}
		witnesses = append(witnesses, w)
	}
	result, err := r.Verify(key, witnesses...)
	if err == nil && cmd.Log != "" {
		result, err = compareReceipt(ctx, r, key, result.Chain, cmd.Log)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", cmd.File, err)
	}
	origin := key.Origin(result.Chain)
	proof := fmt.Sprintf("It is leaf %d of the signed tree of %d leaves of %s.", result.Index, result.Size, origin)
	if result.Size == 0 {
		proof = fmt.Sprintf("The service promised to have it in the log by %s. It is not proved yet.",
			result.Until.Format(time.RFC3339))
	}
	return t.Say(map[string]any{"ref": r.Record.Ref, "origin": origin, "index": result.Index, "size": result.Size,
		"proved": result.Size > 0, "until": result.Until, "verdict": r.Record.Verdict, "score": r.Record.Score,
		"at": r.Record.At, "revision": r.Record.Revision}, "%s: %s %d at %s, under lineup revision %d.\n%s\n",
		r.Record.Ref, r.Record.Verdict, r.Record.Score, r.Record.At, r.Record.Revision, proof)
}

// fetchLimit bounds a file of a log, in bytes. A full tile has 8 KiB.
const fetchLimit = 64 << 10

// compareReceipt compares a receipt with the current public log of a service.
func compareReceipt(ctx context.Context, r *receipt.Receipt, key audit.Public, chain int, url string) (
	receipt.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	base := fmt.Sprintf("%s/audit/%d/", strings.TrimRight(url, "/"), chain)
	keys, err := fetch(ctx, base+"keys", fetchLimit) // including keys introduced after the receipt
	if err != nil {
		return receipt.Result{}, err
	}
	published, err := audit.ParseKeys(string(keys))
	if err == nil {
		key, err = key.With(published.Statements())
	}
	if err != nil {
		return receipt.Result{}, fmt.Errorf("%skeys: %w", base, err)
	}
	checkpoint, err := fetch(ctx, base+"checkpoint", fetchLimit)
	if err != nil {
		return receipt.Result{}, err
	}
	read := func(ids []audit.TileID) (tiles [][]byte, err error) {
		for _, id := range ids {
			tile, err := fetch(ctx, base+id.Path(), fetchLimit)
			if err != nil {
				return nil, err
			}
			tiles = append(tiles, tile)
		}
		return tiles, nil
	}
	return r.Compare(key, string(checkpoint), read, time.Now())
}

// fetch returns the response from a URL, of at most limit bytes.
func fetch(ctx context.Context, url string, limit int64) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	switch {
	case response.StatusCode != http.StatusOK:
		err = fmt.Errorf("%s answers with status %d", url, response.StatusCode)
	case int64(len(content)) > limit:
		err = fmt.Errorf("%s answers with more than %d bytes", url, limit)
	}
	return content, errors.Join(err, response.Body.Close())
}
