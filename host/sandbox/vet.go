package sandbox

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tetratelabs/wazero/api"

	"assay/host/sandbox/meter"
)

func signature(params []meter.ValueType, results ...meter.ValueType) meter.Signature {
	return meter.Signature{Params: params, Results: results}
}

func params(types ...meter.ValueType) []meter.ValueType { return types }

const (
	i32 = meter.I32
	i64 = meter.I64
)

// hostFunction is a function of the host, and its type.
type hostFunction struct {
	meter.Signature
	run api.GoModuleFunc
}

// imports lists the functions that a guest may import, by module and name. They are the four host functions (sdk/ABI.md
// section 3) and the part of WASI preview 1 that language runtimes need to start, print and exit (section 9). None of
// them reaches a file, a directory or a socket.
var imports = map[string]map[string]hostFunction{
	hostModule: {
		"fact":   {signature(params(i32, i32, i32, i32), i32), hostFact},
		"signal": {signature(params(i32, i32, i32, i32, i32)), hostSignal},
		"threat": {signature(params(i32, i32)), hostThreat},
		"log":    {signature(params(i32, i32, i32)), hostLog},
	},
	wasiModule: {
		"args_get":            {signature(params(i32, i32), i32), wasi(wasiNothing)},
		"args_sizes_get":      {signature(params(i32, i32), i32), wasi(wasiNoSizes)},
		"clock_res_get":       {signature(params(i32, i32), i32), wasi(wasiClockResolution)},
		"clock_time_get":      {signature(params(i32, i64, i32), i32), wasi(wasiClockTime)},
		"environ_get":         {signature(params(i32, i32), i32), wasi(wasiNothing)},
		"environ_sizes_get":   {signature(params(i32, i32), i32), wasi(wasiNoSizes)},
		"fd_close":            {signature(params(i32), i32), wasi(wasiClose)},
		"fd_fdstat_get":       {signature(params(i32, i32), i32), wasi(wasiFileStatus)},
		"fd_fdstat_set_flags": {signature(params(i32, i32), i32), wasi(wasiSetFlags)},
		"fd_prestat_dir_name": {signature(params(i32, i32, i32), i32), wasi(wasiNoFile)},
		"fd_prestat_get":      {signature(params(i32, i32), i32), wasi(wasiNoFile)},
		"fd_seek":             {signature(params(i32, i64, i32, i32), i32), wasi(wasiSeek)},
		"fd_write":            {signature(params(i32, i32, i32, i32), i32), wasi(wasiWrite)},
		"poll_oneoff":         {signature(params(i32, i32, i32, i32), i32), wasi(wasiPoll)},
		"proc_exit":           {signature(params(i32)), wasi(wasiExit)},
		"random_get":          {signature(params(i32, i32), i32), wasi(wasiRandomGet)},
		"sched_yield":         {signature(nil, i32), wasi(wasiNothing)},
	},
}

// Exports of a guest (sdk/ABI.md section 4).
const (
	exportMemory = "memory"
	exportScore  = "assay_v1_score"
	exportInit   = "_initialize"
)

// maxImportErrors limits how many bad imports an error lists.
const maxImportErrors = 10

// vet verifies that a module implements the layer interface. The error lists all defects: imports that the host does
// not offer, state that cannot be restored cheaply, and exports that are missing or of the wrong type.
func vet(m *meter.Module) error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, f := range m.Imports {
		want, ok := imports[f.Module][f.Name]
		switch {
		case !ok:
			bad("the module imports the function %.80q of module %.80q, which is not offered to layers",
				f.Name, f.Module)
		case !want.Equal(f.Signature):
			bad("the module imports %s.%s as %s instead of %s", f.Module, f.Name, f.Signature, want.Signature)
		}
		if len(errs) == maxImportErrors {
			break
		}
	}
	if len(m.Unrestored) > 0 {
		bad("the module contains %s: a layer must keep its state in its memory and in globals of numbers, which the "+
			"host puts back after each call", strings.Join(m.Unrestored, ", "))
	}
	exports := make(map[string]meter.Export, len(m.Exports))
	for _, e := range m.Exports {
		exports[e.Name] = e
	}
	if e, ok := exports[exportMemory]; !ok || e.Kind != meter.MemoryKind {
		bad("the module does not export a memory named %q", exportMemory)
	}
	if e, ok := exports[exportScore]; !ok || e.Kind != meter.FunctionKind {
		bad("the module does not export the function %q", exportScore)
	} else if want := signature(nil, i32); !want.Equal(e.Signature) {
		bad("the module exports %q as %s instead of %s", exportScore, e.Signature, want)
	}
	if e, ok := exports[exportInit]; ok && (e.Kind != meter.FunctionKind || !signature(nil).Equal(e.Signature)) {
		bad("the module exports %q as %s %s instead of a function %s", exportInit, e.Kind, e.Signature, signature(nil))
	}
	return errors.Join(errs...)
}
