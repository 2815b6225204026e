package main

import (
	"bytes"
	"net/http"
	"testing"

	"assay/host/audit"
	"assay/host/store/storetest"
)

// verifyPublicTree verifies a host's public checkpoint and tiles as anybody with the verifier key can.
func verifyPublicTree(t *testing.T, url, dir, database string) {
	t.Helper()
	keys := outputJSON[struct {
		VerifierKeys []string `json:"verifier_keys"`
	}](t, dir, database, "audit", "checkpoint").VerifierKeys
	_, note := fetch(t, http.DefaultClient, url+"/audit/checkpoint?chain=0")
	head := storetest.Must(audit.ParseTreeHead(note, 0, keys[0]))(t)
	if head.Size < 3 {
		t.Errorf("the checkpoint covers %d records", head.Size)
	}
	var tile []byte
	read := func(ids []audit.TileID) (tiles [][]byte, err error) {
		for _, id := range ids {
			r, hashes := fetch(t, http.DefaultClient, url+"/audit/0/"+id.Path())
			storetest.Expect(t, "the status of a tile", r.StatusCode, http.StatusOK)
			tile = []byte(hashes)
			tiles = append(tiles, tile)
		}
		return tiles, nil
	}
	proof := storetest.Must(audit.ProveInclusion(head, head.Size-1, read))(t)
	last := audit.Hash(tile[len(tile)-len(audit.Hash{}):])
	storetest.NoError(t, audit.CheckInclusion(head, head.Size-1, last, proof))
	r, _ := fetch(t, http.DefaultClient, url+"/audit/0/tile/entries/000")
	storetest.Expect(t, "the status of entries", r.StatusCode, http.StatusNotFound)
	if bytes.Count([]byte(note), []byte("\n")) != 5 {
		t.Errorf("the checkpoint is %q", note)
	}
}
