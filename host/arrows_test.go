package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestArrows holds the directions in which packages may depend on each other.
func TestArrows(t *testing.T) {
	t.Parallel()
	packages := listPackages(t)
	// Each engine has one door, so that replacing it is work in one package.
	doors := map[string][]string{
		"github.com/tetratelabs/wazero": {"assay/host/sandbox", "assay/host/sandbox/linear"},
		"github.com/uptrace/bun":        {"assay/host/store"},
		"github.com/jackc/pgx/v5": {"assay/host/store", "assay/host/postgres",
			"assay/host/postgres/postgrestest"},
		"github.com/hashicorp/go-retryablehttp": {"assay/host/webhook"},
		"github.com/gofiber/fiber/v2":           {"assay/host/api", "assay/host/console", "assay/host/bench"},
		"github.com/valyala/fasthttp": {"assay/host/api", "assay/host/console", "assay/host/bench",
			"assay/host"},
		"github.com/stripe/stripe-go/v85":            {"assay/host/billing"},
		"github.com/fergusstrange/embedded-postgres": {"assay/host/postgres"},
		"github.com/nyaruka/phonenumbers":            {"assay/host/entity"},
		"github.com/miekg/dns": {"assay/host/facts/resolver",
			"assay/host/facts/resolver/resolvertest"},
		"github.com/openrdap/rdap":                {"assay/host/facts/registration"},
		"github.com/oschwald/maxminddb-golang/v2": {"assay/host/facts/network"},
		"github.com/prometheus/client_golang":     {"assay/host"},
		"github.com/alecthomas/kong":              {"assay/host"},
	}
	for _, p := range packages {
		for engine, allowed := range doors {
			for _, imported := range p.Imports {
				if (imported == engine || strings.HasPrefix(imported, engine+"/")) &&
					!slices.Contains(allowed, p.ImportPath) {
					t.Errorf("%s imports %s: only %s may", p.ImportPath, imported, strings.Join(allowed, " and "))
				}
			}
		}
	}
	// What a package may know of this module; those not named may know everything below main.
	knows := map[string]struct {
		own []string
		why string
	}{
		"assay/sdk":           {nil, "an author's layer must build without the host"},
		"assay/migrations":    {nil, "the schema is data"},
		"assay/host/entity":   {nil, "parsing is pure"},
		"assay/host/audit":    {nil, "the chain is an algorithm, whatever stores it"},
		"assay/host/apikey":   {nil, "a key's form is an algorithm"},
		"assay/host/keyring":  {nil, "secrets depend on nothing that could leak them"},
		"assay/host/postgres": {nil, "starting a server knows nothing of what is in it"},
		"assay/registry":      {[]string{"assay/sdk"}, "manifests and lineups are documents"},
		"assay/host/check": {[]string{"assay/host/entity"},
			"the core declares what it needs, and others implement it"},
		"assay/host/api": {[]string{"assay/host/check", "assay/host/entity", "assay/host/privacy"},
			"HTTP sees the core only"},
		"assay/host/privacy": {[]string{"assay/host/check", "assay/host/entity"},
			"what may be asked of data is said in types"},
		"assay/host/sandbox": {[]string{"assay/host/check", "assay/registry", "assay/sdk", "assay/host/sandbox/meter",
			"assay/host/sandbox/linear"}, "guests are run without a database"},
		"assay/host/store": {[]string{"assay/host/check", "assay/host/entity", "assay/host/audit",
			"assay/host/apikey", "assay/host/keyring", "assay/host/feed", "assay/host/billing", "assay/host/privacy",
			"assay/registry", "assay/migrations"}, "storage runs no guests and serves no requests"},
		"assay/host/lineup": {[]string{"assay/host/check", "assay/host/entity", "assay/host/sandbox",
			"assay/host/store", "assay/registry"}, "bringing a lineup into force serves no requests"},
		"assay/host/billing": {[]string{"assay/host/check"}, "selling knows no pages and no database"},
		"assay/host/console": {[]string{"assay/host/billing", "assay/host/check", "assay/host/entity",
			"assay/host/privacy", "assay/host/store"}, "pages run no guests and send nothing"},
		"assay/host/webhook": {[]string{"assay/host/store"}, "delivery serves no requests and makes no checks"},
		"assay/host/bench":   {nil, "load comes from outside"},

		"assay/host/facts": {[]string{"assay/host/check", "assay/host/entity"},
			"collecting knows no single source"},
		"assay/host/facts/internet": {nil, "which addresses are public is a table"},
		"assay/host/facts/recent":   {nil, "a cache knows nothing of what it keeps"},
		"assay/host/facts/resolver": {[]string{"assay/host/facts/recent"}, "the DNS knows nothing of entities"},
		"assay/host/facts/network": {[]string{"assay/host/entity", "assay/host/facts", "assay/host/facts/internet",
			"assay/host/facts/resolver"}, "a source needs no database"},
		"assay/host/facts/registration": {[]string{"assay/host/entity", "assay/host/facts", "assay/host/facts/internet",
			"assay/host/facts/recent"}, "where answers are kept is its user's choice"},
		"assay/host/facts/reputation": {[]string{"assay/host/entity", "assay/host/facts", "assay/host/feed",
			"assay/host/store"}, "what is known of others lies in the database"},
		"assay/host/feed": {[]string{"assay/host/entity", "assay/sdk"}, "lists are documents"},
		"assay/host/eval": {[]string{"assay/host/check", "assay/host/entity", "assay/registry"},
			"measuring is arithmetic on what a scorer said"},
	}
	for _, p := range packages {
		rule, ok := knows[p.ImportPath]
		if !ok {
			continue
		}
		for _, imported := range p.Imports {
			if strings.HasPrefix(imported, "assay/") && !slices.Contains(rule.own, imported) {
				t.Errorf("%s imports %s: %s", p.ImportPath, imported, rule.why)
			}
		}
	}
	// A layer builds with the SDK and what layers share, so that its guest holds nothing of the host.
	for _, p := range packages {
		if !strings.HasPrefix(p.ImportPath, "assay/plugins/") || p.Name == "main" &&
			p.ImportPath != layerOf(p.ImportPath) || p.ImportPath == "assay/registry/layertest" {
			continue // commands that make a layer's data may know how entities are parsed
		}
		for _, imported := range p.Imports {
			if strings.HasPrefix(imported, "assay/") && imported != "assay/sdk" &&
				!strings.HasPrefix(imported, "assay/plugins/") {
				t.Errorf("%s imports %s: layers know the SDK and each other's word lists only", p.ImportPath, imported)
			}
		}
	}
}

// layerOf is the folder of the layer that a package belongs to.
func layerOf(path string) string {
	return strings.Join(strings.SplitN(path, "/", 4)[:3], "/")
}

type listedPackage struct {
	ImportPath string
	Name       string
	Imports    []string
}

// listPackages lists the module's packages with what they import, tests left out.
func listPackages(t *testing.T) []listedPackage {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Name,Imports", "assay/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []listedPackage
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listedPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if len(all) < 15 {
		t.Fatalf("only %d packages were listed", len(all))
	}
	return all
}
