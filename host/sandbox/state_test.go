package sandbox

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"assay/registry/expect"
)

// Reasons why no call of a guest can leave something in a field of an instance.
const (
	restored  = "restored"  // put back after each call
	reset     = "reset"     // set at the start of each call, or created for it
	immutable = "immutable" // fixed when the module is compiled or the instance starts
	refused   = "refused"   // only instructions and imports that the host refuses write to it
	invisible = "invisible" // no instruction reads it, and it changes no result
)

// reviewed lists every field of the host's and wazero's types that make up an instance. docs/decisions/sandbox.md gives
// the reasons at more length.
var reviewed = map[string]map[string]string{
	"sandbox.instance": {
		"module": immutable, "entry": restored, "stack": restored, "stackBytes": immutable,
		"started": immutable, "fuel": immutable, "current": reset, "call": reset, "result": reset,
		"memory": restored, "globals": immutable, "restored": immutable,
	},
	"wasm.ModuleInstance": {
		"WazeroOnlyType": immutable, "ModuleName": immutable, "Exports": immutable, "Globals": restored,
		"MemoryInstance": restored, "Tables": refused, "Tags": immutable, "Engine": restored, "TypeIDs": immutable,
		"DataInstances": refused, "ElementInstances": refused, "Sys": refused, "Closed": refused,
		"CodeCloser": immutable, "s": immutable, "prev": invisible, "next": invisible, "Source": immutable,
		"CloseNotifier": immutable,
	},
	"wasm.MemoryInstance": {
		"WazeroOnlyType": immutable, "Buffer": restored, "Min": immutable, "Cap": invisible, "Max": immutable,
		"Shared": immutable, "definition": immutable, "Mux": invisible, "waiters": refused,
		"ownerModuleEngine": immutable, "expBuffer": restored,
	},
	"wasm.TableInstance": {
		"References": refused, "Min": immutable, "Max": immutable, "Type": immutable,
		"involvingModuleInstances": refused, "involvingModuleInstancesMutex": invisible,
	},
	"wasm.GlobalInstance": {
		"Type": immutable, "Val": restored, "ValHi": refused, "Me": immutable, "Index": immutable,
	},
	"wazevo.moduleEngine": {
		"opaquePtr": immutable, "parent": immutable, "module": immutable, "opaque": restored,
		"localFunctionInstances": refused, "importedFunctions": immutable, "listeners": immutable,
	},
	"sys.Context": {
		"args": immutable, "environ": immutable, "argsSize": immutable, "environSize": immutable,
		"walltime": refused, "walltimeResolution": immutable, "nanotime": refused, "nanotimeResolution": immutable,
		"nanosleep": refused, "osyield": refused, "randSource": refused, "fsc": refused,
	},
	"sys.FSContext": {"openedFiles": refused},
	"wazevo.callEngine": {
		"WazeroOnly": immutable, "stack": restored, "stackTop": restored, "executable": immutable,
		"preambleExecutable": immutable, "parent": immutable, "indexInModule": immutable,
		"sizeOfParamResultSlice": immutable, "requiredParams": immutable, "execCtx": reset, "execCtxPtr": immutable,
		"numberOfResults": immutable, "stackIteratorImpl": invisible, "tryHandlers": refused,
		"pendingException": refused,
	},
	"wazevo.executionContext": {
		"exitCode": reset, "callerModuleContextPtr": reset, "originalFramePointer": reset,
		"originalStackPointer": reset, "goReturnAddress": reset, "stackBottomPtr": restored,
		"goCallReturnAddress": reset, "stackPointerBeforeGoCall": reset, "stackGrowRequiredSize": reset,
		"memoryGrowTrampolineAddress": immutable, "stackGrowCallTrampolineAddress": immutable,
		"checkModuleExitCodeTrampolineAddress": immutable, "savedRegisters": invisible,
		"goFunctionCallCalleeModuleContextOpaque": reset, "tableGrowTrampolineAddress": immutable,
		"refFuncTrampolineAddress": immutable, "memmoveAddress": immutable, "framePointerBeforeGoCall": reset,
		"memoryWait32TrampolineAddress": immutable, "memoryWait64TrampolineAddress": immutable,
		"memoryNotifyTrampolineAddress": immutable, "throwAllocTrampolineAddress": immutable,
		"throwTrampolineAddress": immutable, "tryTableEnterTrampolineAddress": immutable,
		"tryTableLeaveTrampolineAddress": immutable, "exceptionPtr": refused, "exceptionParamsPtr": refused,
		"caughtExceptionClauseIdx": refused,
	},
}

// TestStateIsReviewed fails if an instance has a field that nobody has reviewed, for example in a new version of
// wazero: a call might leave something in it for the next customer's call.
func TestStateIsReviewed(t *testing.T) {
	t.Parallel()
	p := openIn(t, sandboxOf(t, 1), sevenPoints(t))
	in := <-p.pool.idle
	defer p.pool.release(in)
	module := reflect.ValueOf(in.module).Elem()
	elementOf := func(field string) reflect.Type { return module.FieldByName(field).Type().Elem().Elem() }
	call := reflect.ValueOf(in.entry).Elem()
	seen := map[string]bool{}
	for _, typ := range []reflect.Type{
		reflect.TypeFor[instance](), module.Type(), module.FieldByName("MemoryInstance").Type().Elem(),
		elementOf("Tables"), elementOf("Globals"), module.FieldByName("Engine").Elem().Type().Elem(),
		module.FieldByName("Sys").Type().Elem(), module.FieldByName("Sys").Elem().FieldByName("fsc").Type(),
		call.Type(), call.FieldByName("execCtx").Type(),
	} {
		fields, known := reviewed[typ.String()]
		expect.That(t, known, "the type %s is not reviewed", typ)
		seen[typ.String()] = true
		for i := range typ.NumField() {
			name := typ.Field(i).Name
			expect.That(t, fields[name] != "", "the field %s.%s %s is not reviewed", typ, name, typ.Field(i).Type)
		}
		for name := range fields {
			_, ok := typ.FieldByName(name)
			expect.That(t, ok, "the field %s.%s does not exist", typ, name)
		}
	}
	document := expect.Value(os.ReadFile("../../docs/decisions/sandbox.md"))(t)
	for name, fields := range reviewed {
		expect.That(t, seen[name], "the type %s is not part of an instance", name)
		if name == "wazevo.executionContext" {
			continue // the document describes it as a whole
		}
		for field, reason := range fields {
			expect.That(t, reason == immutable || strings.Contains(string(document), "`"+field+"`"),
				"docs/decisions/sandbox.md does not say why %s.%s is %s", name, field, reason)
		}
	}
}
