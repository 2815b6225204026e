package network

import (
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/oschwald/maxminddb-golang/v2"

	"assay/host/facts"
)

// Ranges maps address ranges to their attributes. It is read from a MaxMind-format file.
type Ranges struct{ reader *maxminddb.Reader }

// maxRangesBytes limits the size of a file.
const maxRangesBytes = 512 << 20

// OpenRanges reads a MaxMind-format file into memory. It does not map the file, because truncating a mapped file would
// crash the process.
func OpenRanges(file string) (*Ranges, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, fmt.Errorf("reading address ranges: %w", err)
	}
	if info.Size() > maxRangesBytes {
		return nil, fmt.Errorf("reading address ranges: %s is larger than %d bytes", file, maxRangesBytes)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading address ranges: %w", err)
	}
	reader, err := maxminddb.OpenBytes(data)
	if err != nil {
		return nil, fmt.Errorf("reading address ranges: %s: %w", file, err)
	}
	return &Ranges{reader}, nil
}

// system returns the autonomous system that announces a, or 0 if it is unknown. It reads the fields of MaxMind, DB-IP
// and IPinfo files.
func (r *Ranges) system(a netip.Addr) (number uint64, organisation string) {
	found := r.reader.Lookup(a)
	if found.DecodePath(&number, "autonomous_system_number") == nil && number != 0 {
		_ = found.DecodePath(&organisation, "autonomous_system_organization") // optional
		return number, facts.Text(organisation)
	}
	var text string
	if found.DecodePath(&text, "asn") != nil {
		return 0, ""
	}
	number, _ = strconv.ParseUint(strings.TrimPrefix(text, "AS"), 10, 32)
	_ = found.DecodePath(&organisation, "as_name") // optional
	return number, facts.Text(organisation)
}

// country returns the ISO 3166-1 alpha-2 code of the country where a is used or, if unknown, registered, or "".
func (r *Ranges) country(a netip.Addr) string {
	found := r.reader.Lookup(a)
	for _, path := range [][]any{{"country", "iso_code"}, {"country_code"}, {"country"},
		{"registered_country", "iso_code"}} {
		var code string
		if found.DecodePath(&code, path...) == nil && len(code) == 2 &&
			strings.Trim(code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == "" {
			return code
		}
	}
	return ""
}
