package assay_test

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

// engineImporters lists the packages that may import each third-party engine, so that an engine can be replaced in one
// place.
var engineImporters = map[string][]string{
	"github.com/tetratelabs/wazero":              {"host/sandbox", "host/sandbox/linear"},
	"github.com/uptrace/bun":                     {"host/store"},
	"github.com/jackc/pgx/v5":                    {"host/store/...", "host/store/postgres/...", "host/e2e/chaos"},
	"github.com/hashicorp/go-retryablehttp":      {"host/customer/webhook"},
	"github.com/gofiber/fiber/v2":                {"host/web/api", "host/web/console", "host/measure/bench"},
	"github.com/valyala/fasthttp":                {"host/web/api", "host/web/console", "host/measure/bench", "host"},
	"github.com/stripe/stripe-go/v85":            {"host/customer/billing"},
	"github.com/fergusstrange/embedded-postgres": {"host/store/postgres"},
	"github.com/nyaruka/phonenumbers":            {"host/entity"},
	"github.com/miekg/dns":                       {"host/facts/resolver/..."},
	"github.com/openrdap/rdap":                   {"host/facts/registration"},
	"github.com/oschwald/maxminddb-golang/v2":    {"host/facts/network"},
	"github.com/prometheus/client_golang":        {"host/telemetry"},
	"gopkg.in/natefinch/lumberjack.v2":           {"host/telemetry"},
	"github.com/alecthomas/kong":                 {"host"},
	"github.com/google/pprof":                    {"host/measure/bench"},
	"github.com/wneessen/go-mail":                {"host/web/mail"},
	"github.com/emersion/go-smtp":                {"host/web/mail/mailtest"},
	"github.com/yuin/goldmark":                   {"docs"},
	"oras.land/oras-go/v2":                       {"registry/oci"},
	"github.com/opencontainers/image-spec":       {"registry/oci"},
}

// allowedImports lists, for each package, the packages of this module that it may import, and why it may import no
// others. Paths are relative to the module's. One that ends in /... covers the package and all below it; the most
// specific rule applies.
var allowedImports = map[string]struct{ imports, reason string }{
	"host": {"host/... registry registry/activation registry/builtin registry/oci registry/project " +
		"registry/release registry/sealed sdk sdk/receipt",
		"package main wires everything"},

	// Pure: no package of the host.
	"sdk":                 {"", "a layer must build without the host"},
	"sdk/client":          {"", "a customer's client has only the API"},
	"sdk/starter":         {"sdk", "a layer has only the SDK"},
	"sdk/receipt":         {"host/audit host/audit/witness", "whoever verifies a receipt has only the proofs"},
	"migrations":          {"", "the schema is data"},
	"assay":               {"", "documents are texts"},
	"docs":                {"", "documents are texts"},
	"host/web/admin":          {"", "what operators are served is handed in"},
	"host/access/admission":      {"", "whose turn it is does not depend on what is judged"},
	"host/access/apikey":         {"", "keys are a format and plain types"},
	"host/audit":          {"", "the hash chain is an algorithm, independent of storage"},
	"host/internal/durable":        {"", "a file's content is not known here"},
	"host/entity":         {"", "parsing is pure"},
	"host/internal/envfile":        {"", "files of variables are a format, and what they mean is not known here"},
	"host/access/keyring":        {"", "secrets depend on nothing that could leak them"},
	"host/internal/plot":           {"", "charts are drawn from numbers and texts"},
	"host/web/operator":       {"host/customer/decision host/entity", "the page shows what is handed in, and settles reviews"},
	"host/web/mail/mailtest":  {"", "a test server needs no sender"},
	"host/web/mail":           {"", "sending a text needs to know nothing about it"},
	"host/access/signin":         {"", "codes, links and sessions are formats and plain types"},
	"host/store/postgres":       {"", "starting a server needs no knowledge of its contents"},
	"host/measure/bench":          {"", "load is generated from outside the host"},
	"host/e2e/chaos":          {"host/measure/bench host/entity", "the checker shares no code with what it checks"},
	"registry":            {"sdk registry/sealed", "manifests and lineups are documents"},
	"registry/activation": {"registry", "activations are documents, and what keeps them is not known here"},
	"registry/release":    {"registry registry/activation", "signatures are documents, as activations are"},
	"registry/oci":        {"registry", "what a registry has is verified by the caller"},
	"registry/project":    {"registry sdk", "authors build layers without a host"},
	"registry/sealed":     {"", "sealing files is an algorithm"},
	"registry/layertest":  {"registry host/check host/entity sdk", "layer tests run natively and fuse like the core"},

	"registry/builtin/...": {"registry registry/builtin", "a release contains modules, and nothing that runs them"},

	"host/web/certificate/...": {"", "certificates are files, and what they protect is not known here"},

	// The core declares the interfaces that other packages implement.
	"host/check": {"host/access/admission host/access/apikey host/entity",
		"the core declares what it needs, and others implement it"},
	"host/customer/privacy": {"host/check host/entity", "privacy requests are types"},
	"host/customer/feedback": {"host/check host/entity host/customer/privacy",
		"feedback declares the store and the scorer that it needs"},
	"host/customer/decision": {"host/check host/entity host/customer/privacy host/lineup/replay",
		"questions about checks declare the storage and the scorer that they need"},
	"host/customer/override": {"host/audit host/check host/entity host/customer/privacy",
		"overrides are found in memory, and stored through an interface"},
	"host/customer/billing": {"host/check", "billing needs neither pages nor the database"},
	"host/measure/eval":    {"host/check host/entity host/internal/plot registry sdk", "measuring is arithmetic on decisions"},
	"host/facts/feed":    {"host/entity host/internal/internet sdk", "feeds are documents, stored through an interface"},
	"host/customer/webhook": {"host/internal/internet", "delivery declares the outbox that it reads, and the store implements it"},

	"host/lineup/replay": {"host/check host/entity host/internal/plot",
		"replaying needs the facts of recorded checks, and neither lookups nor storage"},

	"host/lineup/canary": {"host/check host/entity host/lineup/replay",
		"judging a canary needs its checks, and neither storage nor signatures"},
	"host/lineup/demotion": {"host/check", "judging layers needs their outcomes, and neither storage nor signatures"},

	// Implementations of these interfaces.
	"host/sandbox": {"host/check registry registry/sealed sdk host/sandbox/meter host/sandbox/linear",
		"guests run without a database"},
	"host/sandbox/linear": {"", "memory for guests depends on wazero alone"},
	"host/sandbox/meter":  {"", "rewriting a module is an algorithm"},
	"host/store": {"host/check host/customer/decision host/internal/durable host/entity host/audit host/access/apikey host/access/keyring " +
		"host/facts/registration " +
		"host/facts/reputation host/facts/feed host/customer/feedback host/lineup/fleet host/customer/billing host/internal/lru host/customer/override host/customer/privacy " +
		"host/access/signin host/customer/webhook registry registry/activation migrations",
		"storage runs no guests and serves no requests"},
	"host/store/postgres/postgrestest": {"host/store/postgres", "a test database needs only a server"},
	"host/store/storetest": {"host/access/apikey host/check host/entity host/access/keyring host/store/postgres/postgrestest",
		"the store's own tests use these fixtures, so they know the store by interface"},

	"host/facts":                       {"host/check host/entity", "the collector knows sources by interface"},
	"host/internal/internet":                    {"", "public address ranges are a table"},
	"host/internal/lru":                         {"", "a cache does not depend on its contents"},
	"host/facts/resolver":              {"host/internal/lru", "resolving names needs no entities"},
	"host/facts/resolver/resolvertest": {"", "a test server needs no resolver"},
	"host/facts/network": {"host/entity host/facts host/internal/internet host/facts/resolver",
		"observing a network needs no database"},
	"host/facts/registration": {"host/entity host/facts host/internal/internet host/internal/lru",
		"registrations are stored through an interface"},
	"host/facts/reputation": {"host/entity host/facts host/facts/feed", "reputation is read through an interface"},

	// Users of the core and the store.
	"host/auditlog": {"host/audit host/check host/internal/durable host/customer/override host/store host/audit/witness registry " +
		"registry/activation registry/release sdk/receipt",
		"maintaining the audit log makes no checks and serves no requests"},
	"host/lineup/fleet":       {"", "who runs what does not depend on what it is"},
	"host/internal/maintenance": {"", "a schedule does not depend on its jobs"},
	"host/telemetry": {"host/check host/entity host/lineup host/customer/webhook",
		"metrics and logs observe the host and change nothing"},
	"host/web/api": {"host/access/admission host/access/apikey host/check host/customer/decision host/entity host/customer/feedback host/customer/override " +
		"host/customer/privacy",
		"the API sees only the core"},
	"host/web/console": {"docs host/access/admission host/access/apikey host/customer/billing host/check host/customer/decision host/entity " +
		"host/customer/feedback host/internal/internet host/web/mail host/customer/override host/internal/plot host/customer/privacy host/access/signin host/customer/webhook",
		"pages declare the storage that they need, run no guests and send no webhooks"},
	"host/lineup/rehearsal": {"host/check host/entity host/lineup/replay host/sandbox registry registry/activation sdk " +
		"sdk/starter",
		"an author's layer runs without a lineup, a database and lookups"},
	"host/audit/witness": {"host/audit host/internal/durable", "a witness runs without a host, and needs only the proofs"},
	"host/lineup": {"host/check host/internal/durable host/entity host/lineup/fleet host/sandbox registry registry/activation",
		"following the active lineup needs neither the database nor HTTP"},

	"plugins/...": {"sdk plugins/...", "a layer's module contains nothing of the host"},
	"plugins/internal/train/...": {"sdk plugins/... registry host/entity host/measure/eval",
		"trainers parse and measure as the host does, without a database"},
	"examples/...": {"sdk/client", "a customer's program has only the API and its client"},
}

// TestImports checks that packages depend on each other only in the allowed directions.
func TestImports(t *testing.T) {
	t.Parallel()
	packages := listPackages(t)
	used := map[string]bool{}
	for _, p := range packages {
		path := strings.TrimPrefix(p.ImportPath, "assay/")
		pattern := ruleOf(path)
		if pattern == "" {
			t.Errorf("%s has no rule: add one to allowedImports, with its reason", path)
			continue
		}
		used[pattern] = true
		allowed := strings.Fields(allowedImports[pattern].imports)
		for _, imported := range p.Imports {
			if own, ok := strings.CutPrefix(imported, "assay/"); ok && !matchesAny(allowed, own) {
				t.Errorf("%s must not import %s: %s", path, own, allowedImports[pattern].reason)
			}
			for engine, importers := range engineImporters {
				if matches(engine+"/...", imported) && !matchesAny(importers, path) {
					t.Errorf("%s must not import %s: only %s may", path, imported, strings.Join(importers, " and "))
				}
			}
		}
	}
	for pattern := range allowedImports {
		if !used[pattern] {
			t.Errorf("the rule for %s applies to no package: remove it", pattern)
		}
	}
}

// ruleOf returns the most specific pattern of allowedImports that covers a package, or "".
func ruleOf(path string) (longest string) {
	if _, ok := allowedImports[path]; ok {
		return path
	}
	for pattern := range allowedImports {
		if matches(pattern, path) && len(pattern) > len(longest) {
			longest = pattern
		}
	}
	return longest
}

// matches reports whether pattern, a path that may end in /..., covers path.
func matches(pattern, path string) bool {
	folder, below := strings.CutSuffix(pattern, "/...")
	return path == folder || below && strings.HasPrefix(path, folder+"/")
}

func matchesAny(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return matches(pattern, path) })
}

type listedPackage struct {
	ImportPath string
	Imports    []string
}

// listPackages returns the module's packages and their imports, without those of tests.
func listPackages(t *testing.T) []listedPackage {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", "assay/...").Output()
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
	return all
}
