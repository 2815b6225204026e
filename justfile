# Every recipe is a thin line over commands that work without just.

# List the recipes
default:
    @just --list

# Run the host on the private Postgres in .assay
run *args:
    go run ./host {{args}}

# Test everything
test *args:
    go test ./... {{args}}

# Test everything under the race detector
race *args:
    go test -race ./... {{args}}

# Run the store's tests on the Citus cluster that ASSAY_TEST_CITUS_URL names; see docs/scale-out.md
test-citus *args:
    @test -n "$ASSAY_TEST_CITUS_URL" || { echo "set ASSAY_TEST_CITUS_URL to a database on the coordinator"; exit 1; }
    go test -tags citus ./host/store -timeout 30m -parallel 4 {{args}}

# Lose the connection at every statement that creates a database; go test loses one of each kind
cuts:
    go test ./host/store -run '^TestSetUpSurvivesALostConnection$' -every-cut

# Write the tables of brands, sites and bait words anew, and the layers' fuel and catalogue, and test the layers
tables:
    ASSAY_UPDATE=1 go test ./plugins/internal/brand ./plugins/internal/bait -run 'TestOwners|TestWords'
    ASSAY_UPDATE=1 go test ./plugins/domain -run 'TestTables$'
    go test ./plugins/...
    go test ./host/e2e/layers -run TestFuelOfLayers -update-fuel
    ASSAY_UPDATE=1 go test ./host/e2e/layers -run TestCatalogue

# Measure: throughput and latency of whole hosts, then the Go benchmarks
bench *args:
    go run ./host bench {{args}}
    go test -run '^$' -bench . -benchmem ./...

# Compare 20,000 decisions on an idle and an overloaded host, a customer's p99 with and without floods of others and
# their values that make layers fail, and the throughput with and without a layer that always traps
load:
    ASSAY_TEST_DISK=1 go test ./host/e2e/load -tags drill -run 'TestSameDecisionAtAnyLoad|OthersAlone|TestTrapping' -v -full-load

# Change the lineup of three hosts under load, while one is stopped at random and one is killed: just activations 100
activations count="1000":
    go test ./host/e2e/drill -run '^TestActivationsUnderLoad$' -v -timeout 0 -times {{count}}

# Break three hosts and their Postgres at random under load, and compare every answer with the records: just chaos 30m 7
chaos time="30m" seed="0":
    go test ./host/e2e/drill -run '^TestChaos$' -v -timeout 0 -for {{time}} -seed {{seed}}

# Send requests with an Idempotency-Key to two hosts that are replaced, lose 5% of the answers, and count
repeats count="100000":
    ASSAY_TEST_DISK=1 ASSAY_REPEATS={{count}} go test ./host/web/api -run '^TestRequestsAreCountedOnce$' -v -timeout 0

# Offer a host 70% of its capacity; its memory, goroutines, descriptors and latencies must not grow
soak time="1h":
    ASSAY_TEST_DISK=1 go test ./host/e2e/drill -run '^TestSoak$' -v -timeout 0 -for {{time}}

# Change the database at random, one value or row at a time, and verify the audit log after each: just changes 1000 7
changes count="1000" seed="1":
    go test ./host/e2e/audit -run '^TestColumnsThatVerificationCovers$/random' -v -timeout 0 -random-changes {{count}} -random-seed {{seed}}

# Restart two hosts behind haproxy under load, and compare every answer with the records: just rolling 20. Needs Debian's
# haproxy
rolling times="20" drain="2s":
    go test ./host/e2e/drill -run '^TestRollingRestart$' -v -timeout 0 -times {{times}} -rolling-drain {{drain}}

# Let every layer of the repository, every example and the first layer of each language score so many random entities
entities count="1000000" seed="1":
    go test ./host/e2e/layers -run '^(TestNoEntityMakesALayerFail|TestExampleLayers)$' -v -timeout 0 -entities {{count}} -entities-seed {{seed}}

# Kill the leader of a Patroni cluster under load, and compare every answer with the records. Needs Debian's patroni,
# etcd-server and haproxy
drill-failover times="10":
    go test -tags drill ./host/e2e/drill -run '^TestFailover$' -v -timeout 0 -times {{times}}

# Measure the layers as they are in the source on labelled values: just eval FILE --html report.html
eval *args:
    go run ./host eval --lineup registry/default_lineup.json {{args}}

# Save benchmarks of pure code as the baseline, or compare with it: just bench-save, then just bench-compare
benchmarks := "./plugins/... ./host/check ./host/entity ./host/audit ./host/access/apikey"

bench-save packages=benchmarks:
    go test -run '^$' -bench . -benchtime 0.1s -count 6 {{packages}} >.ci/benchmarks.txt

bench-compare packages=benchmarks:
    go test -run '^$' -bench . -benchtime 0.1s -count 6 {{packages}} >"${TMPDIR:-/tmp}/benchmarks.txt"
    go tool -modfile=.ci/tools/go.mod benchstat .ci/benchmarks.txt "${TMPDIR:-/tmp}/benchmarks.txt"

# Look for tests that fail now and then, in random order, with busy cores and without: just flakes 1 2 ./host/entity
flakes busy="10" quiet="10" *packages:
    .ci/flakes {{busy}} {{quiet}} {{packages}}

# Break lines of the product, one at a time, and print which test finds each: just mutants 7 -count 20 -only ./host/lru
mutants seed="1" *args:
    go run ./.ci/mutants -seed {{seed}} {{args}}

# Fuzz one target for a while: just fuzz ./host/entity FuzzDomain
fuzz package target time="60s":
    go test -run '^$' -fuzz '^{{target}}$' -fuzztime {{time}} {{package}}

# Fuzz every target for a few seconds; KEEP=6 adds what it finds to the corpora in testdata
fuzz-all time="3s":
    bash .ci/fuzz {{time}}

# Build a release in bin: one static program that contains the layers, and the clients that customers install
release *args:
    .ci/release {{args}}

# Build it in two clones, run it alone in a container, and rate the systemd unit. Needs Debian's podman, runc, systemd
# and postgresql
release-check:
    bash .ci/release-check

# Lint
lint:
    go vet ./...
    go tool -modfile=.ci/tools/go.mod golangci-lint run ./...

# Format
fmt:
    gofmt -w .

# What must hold before a commit: tidy, formatted, vetted, linted, tested
check: lint
    go mod tidy -diff
    test -z "$(gofmt -l .)"
    go test ./...

# Run the check before every commit
hooks:
    printf '#!/bin/sh\nexec just check\n' >"$(git rev-parse --git-path hooks)/pre-commit"
    chmod +x "$(git rev-parse --git-path hooks)/pre-commit"

# What CI runs
ci:
    bash .ci/run
