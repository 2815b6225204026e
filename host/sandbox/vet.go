package sandbox

import (
	"errors"
	"fmt"

	"assay/host/sandbox/meter"
)

// fn writes a signature: what a function takes, and what it returns if anything.
func fn(params []meter.ValueType, results ...meter.ValueType) meter.Signature {
	return meter.Signature{Params: params, Results: results}
}

func takes(types ...meter.ValueType) []meter.ValueType { return types }

const (
	i32 = meter.I32
	i64 = meter.I64
)

// imports lists what a guest may import (sdk/ABI.md sections 3 and 9): the host's four functions, and of WASI preview 1
// what language runtimes need to start, to print and to stop. No file, no socket, no directory.
var imports = map[string]map[string]meter.Signature{
	hostModule: {
		"fact":   fn(takes(i32, i32, i32, i32), i32),
		"signal": fn(takes(i32, i32, i32, i32, i32)),
		"threat": fn(takes(i32, i32)),
		"log":    fn(takes(i32, i32, i32)),
	},
	"wasi_snapshot_preview1": {
		"args_get":            fn(takes(i32, i32), i32),
		"args_sizes_get":      fn(takes(i32, i32), i32),
		"clock_res_get":       fn(takes(i32, i32), i32),
		"clock_time_get":      fn(takes(i32, i64, i32), i32),
		"environ_get":         fn(takes(i32, i32), i32),
		"environ_sizes_get":   fn(takes(i32, i32), i32),
		"fd_close":            fn(takes(i32), i32),
		"fd_fdstat_get":       fn(takes(i32, i32), i32),
		"fd_fdstat_set_flags": fn(takes(i32, i32), i32),
		"fd_prestat_dir_name": fn(takes(i32, i32, i32), i32),
		"fd_prestat_get":      fn(takes(i32, i32), i32),
		"fd_seek":             fn(takes(i32, i64, i32, i32), i32),
		"fd_write":            fn(takes(i32, i32, i32, i32), i32),
		"poll_oneoff":         fn(takes(i32, i32, i32, i32), i32),
		"proc_exit":           fn(takes(i32)),
		"random_get":          fn(takes(i32, i32), i32),
		"sched_yield":         fn(nil, i32),
	},
}

// The exports of a guest (sdk/ABI.md section 4).
const (
	exportMemory = "memory"
	exportScore  = "assay_v1_score"
	exportInit   = "_initialize"
)

// vet says everything that a module lacks of the interface, or asks for beyond it.
func vet(m *meter.Summary) error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, f := range m.Imports {
		want, ok := imports[f.Module][f.Name]
		switch {
		case !ok:
			bad("it imports the function %.80q of module %.80q, which is not offered to layers", f.Name, f.Module)
		case !want.Equal(f.Signature):
			bad("it imports %s.%s as %s, which is %s", f.Module, f.Name, f.Signature, want)
		}
		if len(errs) == maxFaults {
			break
		}
	}
	exports := make(map[string]meter.Export, len(m.Exports))
	for _, e := range m.Exports {
		exports[e.Name] = e
	}
	if e, ok := exports[exportMemory]; !ok || e.Kind != meter.MemoryKind {
		bad("it does not export a memory named %q", exportMemory)
	}
	if e, ok := exports[exportScore]; !ok || e.Kind != meter.Function {
		bad("it does not export the function %q", exportScore)
	} else if want := fn(nil, i32); !want.Equal(e.Signature) {
		bad("it exports %q as %s, which must be %s", exportScore, e.Signature, want)
	}
	if e, ok := exports[exportInit]; ok && (e.Kind != meter.Function || !fn(nil).Equal(e.Signature)) {
		bad("it exports %q as %s %s, which must be a function %s", exportInit, e.Kind, e.Signature, fn(nil))
	}
	return errors.Join(errs...)
}

// maxFaults bounds how many bad imports an error lists.
const maxFaults = 10
