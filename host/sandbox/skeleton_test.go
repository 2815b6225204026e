package sandbox

import (
	"bytes"
	"context"
	"math"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"assay/registry/expect"
)

// A skeleton has the structure of its module and gives its memory the same content.
func (pr *probe) hasSkeleton(t *testing.T) {
	metered := expect.Value(instrument(pr.module))(t)
	bones := expect.Value(skeleton(metered.Wasm))(t)
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
	expect.That(t, err != nil, "a function of the skeleton does not trap")
}

// instanceOf instantiates a module without running its initialisation.
func instanceOf(t *testing.T, wasm []byte) api.Module {
	t.Helper()
	ctx := context.Background()
	engine := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	t.Cleanup(func() { _ = engine.Close(ctx) })
	p := newPlugin(sevenPoints(t), engine, Config{Instances: 1, Logger: discard()})
	expect.NoError(t, p.exportHost(ctx))
	expect.NoError(t, p.exportWASI(ctx))
	compiled := expect.Value(engine.CompileModule(ctx, wasm))(t)
	module, err := engine.InstantiateModule(ctx, compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	expect.NoError(t, err)
	return module
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
		got, n := signed(appendSigned(nil, v))
		expect.That(t, got == v && n != 0, "%d is encoded as %d", v, got)
	}
}
