package assay_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"assay/registry/expect"
)

// engineImporters lists the packages that may import each third-party engine, so that it can be replaced in one place.
var engineImporters = map[string][]string{
	"github.com/tetratelabs/wazero":         {"host/sandbox", "host/sandbox/linear"},
	"github.com/uptrace/bun":                {"host/store"},
	"github.com/jackc/pgx/v5":               {"host/store/...", "host/e2e/chaos", "host/hosttest"},
	"github.com/hashicorp/go-retryablehttp": {"host/customer/webhook"},
	"github.com/gofiber/fiber/v2":           {"host/web/api", "host/web/console", "host/measure/bench"},
	"github.com/valyala/fasthttp": {"host/web/api", "host/web/console", "host/measure/bench",
		"host/server"},
	"github.com/stripe/stripe-go/v85":            {"host/customer/billing"},
	"github.com/fergusstrange/embedded-postgres": {"host/store/postgres"},
	"github.com/nyaruka/phonenumbers":            {"host/entity"},
	"github.com/miekg/dns":                       {"host/facts/resolver/..."},
	"github.com/openrdap/rdap":                   {"host/facts/registration"},
	"github.com/oschwald/maxminddb-golang/v2":    {"host/facts/network"},
	"github.com/prometheus/client_golang":        {"host/telemetry"},
	"gopkg.in/natefinch/lumberjack.v2":           {"host/telemetry"},
	"github.com/alecthomas/kong":                 {"host/cli"},
	"github.com/google/pprof":                    {"host/measure/bench"},
	"github.com/wneessen/go-mail":                {"host/web/mail"},
	"github.com/emersion/go-smtp":                {"host/web/mail/mailtest"},
	"github.com/yuin/goldmark":                   {"docs"},
	"oras.land/oras-go/v2":                       {"registry/oci"},
	"github.com/opencontainers/image-spec":       {"registry/oci"},
}

// groups are the folders of the host, the lowest first. The packages of a group import each other, and those of the
// groups that it names. A group names only groups above it in this list, so the arrows go one way.
var groups = []struct{ name, imports, reason string }{
	{"internal", "", "files, caches and charts know nothing of fraud"},
	{"access", "internal", "keys, sign-in, secrets and turns do not depend on what is checked"},
	{"entity", "", "parsing is pure"},
	{"audit", "internal", "the hash chain is an algorithm, independent of storage"},
	{"check", "access entity", "the core declares what it needs, and others implement it"},
	{"sandbox", "check", "guests run without a database"},
	{"facts", "access check entity internal", "sources of facts are found by interface, and stored through one"},
	{"measure", "check entity internal", "measuring is arithmetic on decisions, and load comes from outside the host"},
	{"lineup", "access check entity internal sandbox", "changing a lineup needs neither the database nor HTTP"},
	{"customer", "audit check entity internal lineup", "what an account may ask declares the storage that it needs"},
	{"store", "access audit check customer entity facts internal lineup",
		"storage runs no guests and serves no requests"},
	{"telemetry", "check customer entity lineup", "metrics and logs observe the host and change nothing"},
	{"web", "access check customer entity internal", "what answers HTTP sees only the core"},
	{"auditlog", "audit check customer internal store",
		"maintaining the audit log makes no checks and serves no requests"},
	{"installation", "access audit auditlog check customer entity facts internal lineup sandbox store web",
		"a data directory and its database are opened for hosts and commands alike"},
	{"server", "access audit auditlog check customer entity facts installation internal lineup store telemetry web",
		"one running host wires everything"},
	{"cli", "access audit auditlog check customer entity facts installation internal lineup measure sandbox server " +
		"store web", "commands use everything"},
	{"hosttest", "access auditlog check installation internal lineup sandbox server store web",
		"only tests start hosts so"},
	{"e2e", "entity measure", "the checker shares no code with what it checks"},
}

// outside lists what the host's groups may import from the rest of the module besides registry/fault.
var outside = map[string]string{
	"audit": "", "facts": "sdk", "sandbox": "registry registry/sealed sdk", "measure": "registry sdk",
	"lineup":       "registry registry/activation registry/release sdk sdk/starter",
	"store":        "migrations registry registry/activation registry/expect",
	"auditlog":     "registry registry/activation registry/release sdk/receipt",
	"web":          "docs registry/suggest",
	"installation": "registry registry/activation registry/builtin registry/sealed",
	"server":       "registry",
	"cli": "plugins/lexical/learn registry registry/activation registry/oci registry/project registry/release " +
		"registry/suggest sdk sdk/receipt",
	"hosttest": "registry registry/activation registry/expect registry/project registry/release",
}

// allowedImports lists what packages may import of this module if that is less than their group may, and why. Paths are
// relative to the module's; one that ends in /... covers all below it, and the most specific rule applies.
var allowedImports = map[string]struct{ imports, reason string }{
	"host": {"host/cli", "the program is a call of the command line"},

	// Pure: no package of the host.
	"sdk":                 {"", "a layer must build without the host"},
	"sdk/starter":         {"sdk", "a layer has only the SDK"},
	"sdk/receipt":         {"host/audit host/audit/witness", "whoever verifies a receipt has only the proofs"},
	"migrations":          {"", "the schema is data"},
	"assay":               {"", "documents are texts"},
	"registry/expect":     {"", "assertions know nothing of what is tested"},
	"docs":                {"", "documents are texts"},
	"registry/fault":      {"", "what failed is a text"},
	"registry":            {"sdk registry/fault registry/sealed registry/suggest", "manifests and lineups are texts"},
	"registry/activation": {"registry registry/fault", "activations are documents, whatever keeps them"},
	"registry/release":    {"registry registry/activation", "signatures are documents, as activations are"},
	"registry/oci":        {"registry registry/fault", "what a registry has is verified by the caller"},
	"registry/project":    {"registry registry/fault sdk", "authors build layers without a host"},
	"registry/suggest":    {"", "comparing words is an algorithm"},
	"registry/sealed":     {"registry/fault", "sealing files is an algorithm"},
	"registry/layertest": {"registry registry/expect host/check host/entity sdk",
		"layer tests run natively and fuse like the core"},

	"registry/builtin/...": {"registry registry/builtin", "a release contains modules, and nothing that runs them"},

	// Less than their group.
	"host/audit":     {"registry/fault", "the hash chain is an algorithm, independent of storage"},
	"host/web/admin": {"", "what operators are served is handed in"},
	"host/web/operator": {"host/customer/decision host/entity host/internal/lru host/internal/plot",
		"the page shows what is handed in, and settles reviews"},
	"host/web/mail": {"", "sending a text needs to know nothing about it"},
	"host/facts":    {"host/access/admission host/check host/entity", "the collector knows sources by interface"},
	"host/web/certificate": {"host/internal/private",
		"certificates are files, and what they protect is not known here"},
	"host/customer/billing": {"host/check", "billing needs neither pages nor the database"},
	"host/customer/webhook": {"host/internal/internet host/internal/maintenance",
		"delivery declares the outbox that it reads, and the store implements it"},
	"host/facts/resolver":  {"host/access/admission host/internal/lru", "resolving names needs no entities"},
	"host/lineup/fleet":    {"", "who runs what does not depend on what it is"},
	"host/lineup/demotion": {"host/check", "judging layers needs their outcomes, and neither storage nor signatures"},
	"host/lineup/canary": {"host/check host/entity host/lineup/replay",
		"judging a canary needs its checks, and neither storage nor signatures"},
	"host/lineup/change": {"host/check host/entity host/lineup host/lineup/fleet host/lineup/replay registry " +
		"registry/activation registry/fault registry/release",
		"changing a lineup needs neither a terminal nor files of keys"},
	"host/lineup/replay": {"host/check host/entity host/internal/plot",
		"replaying needs the facts of recorded checks, and neither lookups nor storage"},
	"host/measure/bench":  {"", "load is generated from outside the host"},
	"host/sandbox/linear": {"registry/fault", "memory for guests depends on wazero alone"},
	"host/sandbox/meter":  {"", "rewriting a module is an algorithm"},
	"host/store/postgres": {"host/internal/durable host/internal/private registry/fault",
		"starting a server needs no knowledge of its contents"},

	"plugins/...": {"sdk plugins/...", "a layer's module contains nothing of the host"},
	"plugins/internal/train/...": {"sdk plugins/... registry host/entity host/measure/eval registry/fault",
		"trainers parse and measure as the host does, without a database"},
	"plugins/lexical/learn": {"sdk plugins/... registry host/entity host/measure/eval",
		"learning parses and measures as the host does, without a database"},
	"examples/...": {"", "a customer's program has only the API and its client"},
}

// TestImports checks that packages depend on each other only in the allowed directions.
func TestImports(t *testing.T) {
	t.Parallel()
	packages, used := listPackages(t), map[string]bool{}
	for _, p := range packages {
		path := strings.TrimPrefix(p.ImportPath, "assay/")
		allowed, reason, rule := allowedFor(path)
		if rule == "" {
			t.Errorf("%s has no rule: add its group to groups, or the package to allowedImports, with the reason", path)
			continue
		}
		used[rule] = true
		for _, imported := range p.Imports {
			own, ok := strings.CutPrefix(imported, "assay/")
			expect.That(t, !ok || matchesAny(allowed, own), "%s must not import %s: %s", path, own, reason)
			for engine, importers := range engineImporters {
				expect.That(t, !matches(engine+"/...", imported) || matchesAny(importers, path),
					"%s must not import %s: only %s may", path, imported, strings.Join(importers, " and "))
			}
		}
	}
	for pattern := range allowedImports {
		expect.That(t, used[pattern], "the rule for %s applies to no package: remove it", pattern)
	}
}

// TestGroups checks that the folders of the host are the groups, and that a group names only lower ones.
func TestGroups(t *testing.T) {
	t.Parallel()
	folders := expect.Value(os.ReadDir("host"))(t)
	// More would not read like a table of contents.
	expect.That(t, len(folders) <= 22, "host has %d entries, want at most 22", len(folders))
	lower := map[string]bool{}
	for _, g := range groups {
		for _, name := range strings.Fields(g.imports) {
			expect.That(t, lower[name], "group %s names %s, which is not below it", g.name, name)
		}
		lower[g.name] = true
	}
	for _, f := range folders {
		expect.That(t, !f.IsDir() || lower[f.Name()], "the folder host/%s is no group", f.Name())
	}
}

// allowedFor returns the packages that a package may import, why no others, and the rule that says so.
func allowedFor(path string) (allowed []string, reason, rule string) {
	rule = ruleOf(path)
	for _, g := range groups {
		if !matches("host/"+g.name+"/...", path) || matches("host/"+g.name+"/...", rule) {
			continue
		}
		allowed = append(strings.Fields(outside[g.name]), "host/"+g.name+"/...", "registry/fault")
		for _, name := range strings.Fields(g.imports) {
			allowed = append(allowed, "host/"+name+"/...")
		}
		return allowed, g.reason, "host/" + g.name + "/..."
	}
	return strings.Fields(allowedImports[rule].imports), allowedImports[rule].reason, rule
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
	expect.NoError(t, err)
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
