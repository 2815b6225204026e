package auditlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"assay/host/audit"
	"assay/host/customer/privacy"
	"assay/host/entity"
	"assay/host/store"
	"assay/host/store/storetest"
	"assay/registry/expect"
)

// exportedLog returns an export of the chains of states and of two others with records of each common kind, and a
// checkpoint of each that is kept elsewhere. The first begins after an anchor and has an erased record.
func exportedLog(t *testing.T) (k *Keeper, export []byte, outside *Checkpoints) {
	t.Helper()
	k, _ = oldChains(t, 2)
	expect.NoError(t, k.SignHeads(t.Context()))
	expect.NoError(t, k.Prune(t.Context()))
	caller := storetest.NewCaller(t, k.Store, storetest.Plan(t, "pro", 10))
	e := storetest.Parse(t, entity.Email, "jane.doe@example.net")
	k.record(t, storetest.Decided(caller, e, "block"), storetest.Decided(caller, e, "block"))
	_ = expect.Value(k.Store.Erase(t.Context(), caller, privacy.Selector{Entity: &e}))(t)
	k.record(t, storetest.Decided(caller, e, "allow"))
	expect.NoError(t, k.SignHeads(t.Context()))
	return k, writeExport(t, k), ReadCheckpoints(expect.Value(k.Dir.Files())(t), k.Signer.Public)
}

func writeExport(t *testing.T, k *Keeper) []byte {
	t.Helper()
	var export bytes.Buffer
	expect.NoError(t, k.Store.ReadAuditLog(t.Context(), func(ctx context.Context, log store.AuditLog) error {
		return expect.ErrorOf(WriteExport(ctx, log, k.Signer.Public, k.Store.Now(), &export, func(int64) {}))
	}))
	return export.Bytes()
}

// verifyExport returns what is wrong with an export.
func verifyExport(t *testing.T, text []byte, key audit.Public, outside *Checkpoints) ([]Report, error) {
	t.Helper()
	export, err := OpenExport(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		expect.Error(t, "an export that cannot be read", err, ErrExport)
		return nil, err
	}
	reports, broken, err := VerifyPublic(t.Context(), export, key, outside, time.Now())
	expect.NoError(t, err)
	return reports, broken
}

// jsonToken matches the names and values of JSON.
var jsonToken = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|-?\d+|true|null`)

// changes calls fn, with its name, for every single change of an export: of a value, and of a line that is deleted,
// doubled or swapped. Nothing signed binds what it leaves out: in the first line, the time and the key.
func changes(text []byte, fn func(what string, changed []byte)) {
	lines := bytes.SplitAfter(text, []byte("\n"))
	lines = lines[:len(lines)-1]
	for i, line := range lines {
		join := func(middle ...[]byte) []byte {
			return slices.Concat(bytes.Join(lines[:i], nil), bytes.Join(middle, nil), bytes.Join(lines[i+1:], nil))
		}
		fn(fmt.Sprintf("line %d deleted", i+1), join())
		fn(fmt.Sprintf("line %d doubled", i+1), join(line, line))
		if i+1 < len(lines) {
			swapped := append([][]byte{}, lines...)
			swapped[i], swapped[i+1] = swapped[i+1], swapped[i]
			fn(fmt.Sprintf("line %d swapped with the next", i+1), bytes.Join(swapped, nil))
		}
		first := bytes.TrimLeft(line[:bytes.IndexByte(line, ',')], "{")
		for _, member := range [][]byte{first, bytes.ToUpper(first)} {
			fn(fmt.Sprintf("line %d: %s added", i+1, member),
				join(line[:len(line)-2], []byte(","), member, []byte("}\n")))
		}
		name := ""
		for _, at := range jsonToken.FindAllIndex(line, -1) {
			from, until := at[0], at[1]
			if line[until] == ':' {
				name = string(line[from+1 : until-1])
				continue
			}
			if i == 0 && name != "format" {
				continue
			}
			fn(fmt.Sprintf("line %d: %s", i+1, name), join(line[:from], altered(line[from:until]), line[until:]))
			for _, other := range otherTypes(line[from:until]) {
				fn(fmt.Sprintf("line %d: %s is %s", i+1, name, other), join(line[:from], []byte(other), line[until:]))
			}
		}
	}
}

// otherTypes returns JSON values that a program might read as the same number.
func otherTypes(value []byte) []string {
	switch text := string(value); {
	case !strings.Contains("-0123456789", text[:1]):
		return nil
	case text == "0":
		return []string{"false", "0.0"}
	default:
		return []string{"true", text + ".0"}
	}
}

// altered returns another JSON value of the same type.
func altered(value []byte) []byte {
	switch value[0] {
	case 't':
		return []byte("false")
	case 'n':
		return []byte(`["x"]`)
	}
	if value[0] != '"' {
		n, _ := strconv.ParseInt(string(value), 10, 64)
		return strconv.AppendInt(nil, n+1, 10)
	}
	inner := value[1 : len(value)-1]
	if len(inner) == 0 {
		return []byte(`"0"`)
	}
	changed := bytes.Clone(value)
	middle := 1 + len(inner)/2
	for changed[middle] == '\\' || changed[middle-1] == '\\' {
		middle++
	}
	if changed[middle]++; changed[middle] == 'g' || changed[middle] == ':' || changed[middle] == '{' ||
		changed[middle] == '[' || changed[middle] == '"' || changed[middle] == ',' || changed[middle] > '~' {
		changed[middle] = '1'
	}
	return changed
}

// TestEveryChangeOfAnExportIsFound changes each value and each line of an export, one at a time. Both verifiers find
// each change with the checkpoints that are kept elsewhere.
func TestEveryChangeOfAnExportIsFound(t *testing.T) {
	t.Parallel()
	k, text, outside := exportedLog(t)
	reports, err := verifyExport(t, text, k.Signer.Public, outside)
	expect.Must(t, err == nil && len(reports) == 5 && reports[0].Erased+reports[1].Erased == 2 &&
		reports[0].Pruned == 2 && reports[0].Checkpoints != 0 && reports[1].Checkpoints != 0,
		"the export as it is: %v, %+v\n%s", err, reports, text)
	dir, count := t.TempDir(), 0
	names := map[string]string{} // what was changed, by file
	changes(text, func(what string, changed []byte) {
		count++
		expect.Failure(t, expect.ErrorOf(verifyExport(t, changed, k.Signer.Public, outside)), "%s: not found", what)
		file := filepath.Join(dir, strconv.Itoa(count)+".jsonl")
		expect.NoError(t, os.WriteFile(file, changed, 0o600))
		names[file] = what
	})
	t.Logf("%d changes", count)
	expect.That(t, count >= 150, "only %d changes were made", count)
	expect.NoError(t, os.WriteFile(filepath.Join(dir, "whole.jsonl"), text, 0o600))
	out, notes := verifyInPython(t, k, append(slices.Collect(maps.Keys(names)), filepath.Join(dir, "whole.jsonl"))...)
	expect.That(t, strings.Count(out, "is valid") >= 2 && !strings.Contains(notes, "whole.jsonl"),
		"Python about the export as it is: %s", notes)
	for file, what := range names {
		expect.That(t, strings.Contains(notes, file+": "), "%s: not found by Python", what)
	}
	expect.That(t, !strings.Contains(notes, "Traceback"), "Python failed: %s", notes)
}

// verifyInPython verifies exports with the verifier in examples/verify-python, and returns what it prints.
func verifyInPython(t *testing.T, k *Keeper, files ...string) (out, notes string) {
	t.Helper()
	python := expect.Program(t, "python3", "python3")
	dir := t.TempDir()
	key := filepath.Join(dir, "keys")
	expect.NoError(t, os.WriteFile(key, []byte(k.Signer.TreeKey(0)+"\n"), 0o600))
	args := []string{"../../examples/verify-python/verify.py", "export", "--key", key}
	for _, file := range expect.Value(k.Dir.Files())(t) {
		text := expect.Value(os.ReadFile(file))(t)
		trees := ""
		for _, note := range audit.SplitCheckpoints(string(text)) {
			if _, err := k.Signer.OpenTree(note); err == nil {
				trees += note + "\n"
			}
		}
		kept := filepath.Join(dir, filepath.Base(file))
		expect.NoError(t, os.WriteFile(kept, []byte(trees), 0o600))
		args = append(args, "--checkpoints", kept)
	}
	cmd := exec.CommandContext(t.Context(), python, append(args, files...)...)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return stdout.String(), stderr.String()
}

// TestLostChain checks that a chain that is gone with all its rows is missed if a checkpoint of it is known.
func TestLostChain(t *testing.T) {
	t.Parallel()
	k, text, outside := exportedLog(t)
	lines := bytes.SplitAfter(text, []byte("\n"))
	second := slices.IndexFunc(lines, func(line []byte) bool { return bytes.HasPrefix(line, []byte(`{"chain":1,`)) })
	cut := bytes.Join(lines[:second], nil)
	cut = append(cut, fmt.Sprintf(`{"records":%d,"end":true}`+"\n", second-2)...)
	expect.ErrorText(t, "an export without a chain", expect.ErrorOf(verifyExport(t, cut, k.Signer.Public, outside)),
		"chain 1 breaks at record 1: the chain is gone")
	expect.NoError(t, expect.ErrorOf(verifyExport(t, cut, k.Signer.Public, nil)))
}

// TestDeletedCheckpoints checks that one old checkpoint does not vouch for records that were made months later. The
// last ones need none: an export may be written before they are signed, and read much later.
func TestDeletedCheckpoints(t *testing.T) {
	t.Parallel()
	k, db := oldLog(t)
	expect.NoError(t, k.SignHeads(t.Context()))
	expect.NoError(t, os.RemoveAll(string(k.Dir)))
	storetest.Exec(t, db, "DELETE FROM audit_checkpoints WHERE chain = 0")
	keep := func(size int64) {
		tree := store.Tree{TreeHead: treeOf(t, k, size), First: 1}
		note := expect.Value(k.Signer.SignTree(tree.TreeHead))(t)
		expect.NoError(t, k.Store.KeepCheckpoints(t.Context(), []store.Tree{tree}, []string{note}))
	}
	for _, test := range []struct {
		covered      int64
		want, python string
	}{
		{1, "record 2: no signed checkpoint covers this record", "no signed checkpoint covers the last records"},
		{3, "", ""},
	} {
		keep(test.covered)
		export := writeExport(t, k)
		_, err := verifyExport(t, export, k.Signer.Public, nil)
		file := filepath.Join(t.TempDir(), "export.jsonl")
		expect.NoError(t, os.WriteFile(file, export, 0o600))
		_, notes := verifyInPython(t, k, file)
		expect.Outcome(t, "an export with an old checkpoint", err, test.want)
		expect.That(t, strings.Contains(notes, test.python) && (test.python != "" || notes == ""),
			"Python: %q, want %q", notes, test.python)
	}
}

// TestVerifyPublic verifies a database with a role that may only read, and without the secret.
func TestVerifyPublic(t *testing.T) {
	t.Parallel()
	k, db := oldLog(t)
	expect.NoError(t, k.SignHeads(t.Context()))
	role := "assay_reader_" + strings.ToLower(db.Config().Database)
	storetest.Exec(t, db, "CREATE ROLE "+role+" LOGIN PASSWORD 'reader'", "GRANT pg_read_all_data TO "+role)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		conn, err := pgx.Connect(ctx, db.Config().ConnString())
		if err == nil {
			_, err = conn.Exec(ctx, "DROP ROLE "+role)
			err = errors.Join(err, conn.Close(ctx))
		}
		expect.NoError(t, err)
	})
	at := db.Config()
	url := fmt.Sprintf("postgres://%s:reader@%s:%d/%s", role, at.Host, at.Port, at.Database)
	if strings.HasPrefix(at.Host, "/") {
		url = fmt.Sprintf("postgres://%s:reader@/%s?host=%s&port=%d", role, at.Database, at.Host, at.Port)
	}
	reader := storetest.Close(t, expect.Value(store.OpenAuditReader(t.Context(), url))(t))
	verify := func() (broken error) {
		read := func(ctx context.Context, log store.AuditLog, now time.Time) (err error) {
			_, broken, err = VerifyPublic(ctx, log, k.Signer.Public, nil, now)
			return err
		}
		expect.NoError(t, reader.Read(t.Context(), read))
		return broken
	}
	expect.NoError(t, verify())
	storetest.Exec(t, db, "UPDATE audit_records SET score = score + 1 WHERE seq = 3")
	expect.ErrorText(t, "an altered record", verify(), "record 3: the record does not match its leaf")
	storetest.Exec(t, db, "UPDATE audit_records SET score = score - 1 WHERE seq = 3")
	storetest.Exec(t, db, "TRUNCATE audit_checkpoints")
	expect.ErrorText(t, "a log without checkpoints", verify(), "no signed checkpoint covers this record")
}

func TestParseKeys(t *testing.T) {
	t.Parallel()
	signer := audit.NewSigner(audit.KeyName, bytes.Repeat([]byte{1}, 32))
	other := audit.NewSigner(audit.KeyName, bytes.Repeat([]byte{2}, 32))
	for name, test := range map[string]struct{ text, reason string }{
		"of anchors":       {signer.VerifierKey() + "\n", ""},
		"of trees":         {"# keys\n\n" + signer.TreeKey(0) + "\nverifier key: " + signer.TreeKey(7) + "\n", ""},
		"none":             {"# keys\n", "there is none"},
		"of two":           {signer.TreeKey(0) + "\n" + other.TreeKey(0), "of different installations"},
		"another name":     {audit.NewSigner("x", make([]byte, 32)).VerifierKey(), "not the name of an audit log"},
		"another's origin": {audit.NewSigner(other.Origin(0), make([]byte, 32)).VerifierKey(), "not the name of"},
		"not a key":        {"assay/audit", "malformed verifier id"},
	} {
		key, err := audit.ParseKeys(test.text)
		expect.Outcome(t, name, err, test.reason)
		expect.That(t, err != nil || key.VerifierKey() == signer.VerifierKey(), "%s: %v", name, key)
	}
}

// FuzzOpenExport reads any file without a panic.
func FuzzOpenExport(f *testing.F) {
	f.Add([]byte(`{"format":"assay-audit-export-1"}` + "\n" + `{"chain":0,"head":{},"tree":{"first":1}}` + "\n" +
		`{"seq":1,"leaf":"","kind":"erasure","erased":[{}]}` + "\n" + `{"records":1,"end":true}` + "\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		export, err := OpenExport(bytes.NewReader(text), int64(len(text)))
		if err != nil {
			return
		}
		key := audit.NewSigner(audit.KeyName, make([]byte, 32)).Public
		_, _, err = VerifyPublic(t.Context(), export, key, nil, time.Now())
		expect.NoError(t, err)
	})
}
