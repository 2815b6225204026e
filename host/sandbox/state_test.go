package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"assay/host/check"
	"assay/host/sandbox/meter"
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

// reviewed lists every field of the types that make up an instance. docs/decisions/sandbox.md gives the reasons.
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
	"wasm.GlobalInstance": {"Type": immutable, "Val": restored, "ValHi": refused, "Me": immutable, "Index": immutable},
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

// An instance keeps no stack that has grown, and a stack over the limit fails the call even if the guest has returned.
func TestStackLimits(t *testing.T) {
	t.Parallel()
	p := openIn(t, sandboxOf(t, 1), sevenPoints(t))
	in := <-p.pool.idle
	defer p.pool.release(in)
	for size, want := range map[int]error{in.stackBytes + 1: nil, maxStack: nil, maxStack + 1: errStackTooDeep} {
		in.stack = guestStack{reflect.ValueOf(make([]byte, size))}
		_, err := in.score(t.Context(), &call{plugin: p, fuel: fuelTank{bounds: p.bounds, clocks: p.clocks}})
		expect.That(t, errors.Is(err, want), "%d bytes: %v, want %v", size, err, want)
		kept := in.stack.bytes()
		expect.That(t, want != nil || kept == in.stackBytes, "%d bytes: %d are kept", size, kept)
	}
}

// How deep a call may recurse does not depend on the calls before it: an instance does not keep a stack that has grown,
// because wazero would grow it further to other lengths.
func TestDepthDoesNotDependOnEarlierCalls(t *testing.T) {
	t.Parallel()
	const bigFrames, smallFrames = fnScore + 1, fnScore + 3
	// The first letter of config.mode chooses what the call does: w two large frames, or 2000 recursions a letter.
	g := newGuest()
	dropAll := bytes.Repeat(opDrop, 1000)
	results, wide := strings.Repeat(tI64, 1000), bytes.Repeat(i64Const(1), 1000)
	outer := guestFunction{results: results, body: concat(callFunc(bigFrames+1), dropAll, wide)}
	_, f := deep(smallFrames, 0)
	g.scoring(g.fact("config.mode", 64), localSet(0), i32Const(bufferAt), opLoadByte, i32Const('w'), opEqual,
		ifTrue(callFunc(bigFrames), dropAll, returnScored, opReturn),
		localGet(0), i32Const(2000), op(0x6c), callFunc(smallFrames), returnScored).
		with(outer, guestFunction{results: results, body: wide}, f)
	m, box := hostileGuest{wasm: g.encode}.module(), sandboxOf(t, 1)
	outcome := func(p *Plugin, mode string) string {
		_, err := p.Score(t.Context(), facts(testEntity, mode))
		if err == nil {
			return "scored"
		}
		return string(failureOf(t, err).Reason)
	}
	p := openIn(t, box, m)
	trapped := false
	for depth := 4; depth <= 64; depth += 6 {
		recursing := strings.Repeat("d", depth)
		first := outcome(openIn(t, box, m), recursing)
		outcome(p, "wide")
		expect.Equal(t, fmt.Sprint(2000*depth, " calls deep, after another call"), outcome(p, recursing), first)
		trapped = trapped || first == string(check.Trap)
	}
	expect.That(t, trapped, "no recursion was too deep, so the test proves nothing")
}

// TestCallsDoNotLeakState: no call finds an earlier one's state, except with OpenShared, nor needs another instance.
func TestCallsDoNotLeakState(t *testing.T) {
	t.Parallel()
	type testCase struct {
		wasm         func() []byte
		score, calls int
		never        bool // not even a shared instance has this state
	}
	expect.Each(t, map[string]testCase{
		"memory":             {wasm: leakPrevious, score: 0, calls: 2000},
		"memory and global":  {wasm: countCalls, score: 2, calls: 2000},
		"size of the memory": {wasm: growEachCall, score: 1, calls: 1000},
		"file descriptors":   {wasm: closeOutput, score: 1, calls: 50, never: true},
	}, func(t *testing.T, c testCase) {
		box, m := sandboxOf(t, 1), hostileGuest{wasm: c.wasm}.module()
		p := openIn(t, box, m)
		started := starts(p)
		for i := range c.calls {
			result, err := scoreOf(p, fmt.Sprintf("canary-%d.example", i))
			expect.Must(t, err == nil && result.Score == c.score, "call %d: %+v, %v, want %d points", i, result,
				err, c.score)
		}
		expect.Equal(t, "instances that were started", started.Load(), 0)
		shared := expect.Value(box.OpenShared(t.Context(), m))(t)
		defer closePlugin(t, shared)
		for i := range 2 {
			result, err := scoreOf(shared, testEntity)
			expect.That(t, err == nil && (result.Score == c.score) == (i == 0 || c.never),
				"shared, call %d: %+v, %v", i, result, err)
		}
	})
}

// starts counts the instances that p starts from now on.
func starts(p *Plugin) *atomic.Int64 {
	var n atomic.Int64
	create := p.pool.create
	p.pool.create = func(ctx context.Context) (*instance, error) {
		n.Add(1)
		return create(ctx)
	}
	return &n
}

// A skeleton has the structure of its module and gives its memory the same content.
func (pr *probe) hasSkeleton(t *testing.T) {
	metered := expect.Value(instrument(pr.module))(t)
	bones := expect.Value(skeleton(metered))(t).Wasm
	expect.That(t, len(bones) <= len(metered.Wasm)/2, "the skeleton has %d of %d bytes", len(bones), len(metered.Wasm))
	full, bare := instanceOf(t, metered.Wasm), instanceOf(t, bones)
	want, _ := full.Memory().Read(0, full.Memory().Size())
	got, _ := bare.Memory().Read(0, bare.Memory().Size())
	expect.That(t, bytes.Equal(want, got), "the memories differ after instantiation")
	for name, f := range full.ExportedFunctionDefinitions() {
		g := bare.ExportedFunctionDefinitions()[name]
		expect.That(t, g != nil && g.Index() == f.Index() && bytes.Equal(g.ParamTypes(), f.ParamTypes()) &&
			bytes.Equal(g.ResultTypes(), f.ResultTypes()), "the function %s differs", name)
	}
	_, err := bare.ExportedFunction(exportScore).Call(t.Context())
	expect.Failure(t, err, "the skeleton does not trap")
}

// instanceOf instantiates a module without running its initialisation.
func instanceOf(t *testing.T, wasm []byte) api.Module {
	t.Helper()
	ctx := context.Background()
	engine := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	t.Cleanup(func() { _ = engine.Close(ctx) })
	expect.NoError(t, newPlugin(sevenPoints(t), engine, Config{Instances: 1, Logger: discard()}).exportHost(ctx))
	compiled := expect.Value(engine.CompileModule(ctx, wasm))(t)
	config := wazero.NewModuleConfig().WithName("").WithStartFunctions()
	return expect.Value(engine.InstantiateModule(ctx, compiled, config))(t)
}

func TestMergeData(t *testing.T) {
	t.Parallel()
	segment := func(at int, text string) []byte {
		return concat([]byte{0}, i32Const(at), []byte{0x0b, byte(len(text))}, []byte(text))
	}
	data := func(segments ...[]byte) []byte { return concat([]byte{byte(len(segments))}, concat(segments...)) }
	passive := concat([]byte{1, 1}, []byte("x"))
	global := concat([]byte{0, 0x23, 0, 0x0b, 1}, []byte("x"))
	for name, test := range map[string]struct{ body, want []byte }{
		"none":              {data(), data()},
		"adjacent":          {data(segment(8, "ab"), segment(10, "cd")), data(segment(8, "abcd"))},
		"gap":               {data(segment(8, "ab"), segment(12, "cd")), data(segment(8, "ab\x00\x00cd"))},
		"empty":             {data(segment(8, ""), segment(8, "cd")), data(segment(8, "cd"))},
		"far apart":         {data(segment(8, "a"), segment(500, "b")), data(segment(8, "a"), segment(500, "b"))},
		"high address":      {data(segment(-8, "a"), segment(-6, "b")), data(segment(-8, "a\x00b"))},
		"out of order":      {data(segment(10, "cd"), segment(8, "ab")), nil},
		"overlapping":       {data(segment(8, "abc"), segment(10, "d")), nil},
		"passive":           {data(segment(8, "a"), passive), nil},
		"address in global": {data(segment(8, "a"), global), nil},
		"truncated":         {data(segment(8, "a"), segment(9, "b"))[:9], nil},
	} {
		want := test.want
		if want == nil {
			want = test.body
		}
		got := mergeData(test.body)
		expect.That(t, bytes.Equal(got, want), "%s: % x, want % x", name, got, want)
	}
	for _, v := range []int64{0, 1, 63, 64, -1, -64, -65, 8191, 1 << 20, math.MaxInt32, math.MinInt32} {
		got, n := signed(meter.AppendSigned(nil, v))
		expect.That(t, got == v && n != 0, "%d is encoded as %d", v, got)
	}
}
