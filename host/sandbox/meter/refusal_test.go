package meter

import (
	"errors"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"assay/registry/expect"
)

var maxU32 = []byte{0xff, 0xff, 0xff, 0xff, 0x0f} // 2^32-1

// body returns a module with one function of type () -> (), a table without a maximum, a memory and a global.
func body(code ...byte) []byte {
	return module(section(idType, sig("", ""), sig(i32, strings.Repeat(i64, 900))), section(idFunction, u(0)),
		section(idTable, []byte{0x70, 0, 1}), section(idMemory, []byte{0, 1}),
		section(idGlobal, []byte{0x7f, 1, 0x41, 0, opEnd}), section(idCode, fn(nil, code...)))
}

func TestRefusedModules(t *testing.T) {
	t.Parallel()
	types, oneFn := section(idType, sig("", "")), section(idFunction, u(0))
	empty := section(idCode, fn(nil))
	imported := func(kind byte, rest ...byte) []byte {
		return module(types, section(idImport, cat(str("env"), str("x"), []byte{kind}, rest)))
	}
	for name, c := range map[string]struct {
		wasm            []byte
		section, reason string
	}{
		"empty file":                 {nil, "header", "empty file"},
		"gzip file":                  {[]byte("\x1f\x8b\x08\x00abcdef"), "header", "gzip"},
		"ELF file":                   {[]byte("\x7fELF\x02\x01\x01\x00"), "header", "ELF"},
		"magic number":               {[]byte("\x00asn\x01\x00\x00\x00"), "header", "magic"},
		"version":                    {[]byte("\x00asm\x02\x00\x00\x00"), "header", "version"},
		"component":                  {[]byte("\x00asm\x0d\x00\x01\x00"), "header", "component"},
		"truncated header":           {[]byte("\x00as"), "header", "truncated"},
		"100 MB of zeros":            {make([]byte, 100<<20), "header", "over the limit"},
		"name not UTF-8":             {module(rawSection(0, cat(u(2), []byte{0xff, 0xfe}))), "custom", "UTF-8"},
		"memory minimum":             {module(section(idMemory, cat([]byte{0}, u(65536)))), "memory", "65536 pages"},
		"table.copy from no table":   {body(0xfc, 14, 0, 9), "code", "table 9 is out of range"},
		"table.copy to no table":     {body(0xfc, 14, 9, 0), "code", "table 9 is out of range"},
		"table.grow of no table":     {body(0xfc, 15, 9), "code", "table 9 is out of range"},
		"table.size of no table":     {body(0xfc, 16, 9), "code", "table 9 is out of range"},
		"table.fill of no table":     {body(0xfc, 17, 9), "code", "table 9 is out of range"},
		"table.grow without maximum": {body(0xd0, 0x70, 0x41, 0, 0xfc, 15, 0, 0x1a), "code", "no maximum"},
		"64 tables": {module(rawSection(idTable, cat(u(64), repeat(64, cat([]byte{0x70, 0}, u(1<<27))...)))), "table",
			"64 tables, over the limit"},
		"50 MB of names":   {module(rawSection(0, cat(str("name"), make([]byte, 50<<20)))), "header", "over the limit"},
		"table minimum":    {module(section(idTable, cat([]byte{0x70, 0}, u(1<<27)))), "table", "134217728 entries"},
		"table of numbers": {module(section(idTable, []byte{0x7f, 0, 1})), "table", "i32 is not a reference type"},
		"5 tables": {module(cat([]byte{idTable}, sized(cat(u(5), repeat(5, 0x70, 0, 1))))), "table",
			"5 tables, over the limit"},
		"10000 imports": {module(types,
			rawSection(idImport, cat(u(10000), repeat(10000, cat(str("a"), str("b"), []byte{0, 0})...)))),
			"import", "10000 imports, over the limit"},
		"memory import": {imported(2, 0, 1), "import", "import of memory"},
		"table import":  {imported(1, 0x70, 0, 1), "import", "import of table"},
		"global import": {imported(3, 0x7f, 0), "import", "import of global"},
		"2^32-1 locals": {module(types, oneFn, section(idCode, sized(cat(u(1), maxU32, []byte{0x7f, opEnd})))),
			"code", "4294967295 locals"},
		"locals that overflow 32 bits": {module(types, oneFn,
			section(idCode, sized(cat(u(2), maxU32, []byte{0x7f, 1, 0x7f, opEnd})))), "code", "4294967295 locals"},
		"2^32-1 types":            {module(rawSection(idType, maxU32)), "type", "declared"},
		"2^32-1 imports":          {module(types, rawSection(idImport, maxU32)), "import", "declared"},
		"2^32-1 functions":        {module(types, rawSection(idFunction, maxU32)), "function", "declared"},
		"2^32-1 tables":           {module(rawSection(idTable, maxU32)), "table", "declared"},
		"2^32-1 memories":         {module(rawSection(idMemory, maxU32)), "memory", "declared"},
		"2^32-1 globals":          {module(rawSection(idGlobal, maxU32)), "global", "declared"},
		"2^32-1 exports":          {module(rawSection(idExport, maxU32)), "export", "declared"},
		"2^32-1 element segments": {module(rawSection(idElement, maxU32)), "element", "declared"},
		"2^32-1 elements":         {module(section(idElement, cat([]byte{1, 0}, maxU32))), "element", "declared"},
		"2^32-1 function bodies":  {module(types, oneFn, rawSection(idCode, maxU32)), "code", "declared"},
		"2^32-1 data segments":    {module(rawSection(idData, maxU32)), "data", "declared"},
		"data count of 2^32-1":    {module(rawSection(idDataCount, maxU32)), "data count", "over the limit"},
		"2^32-1 branch targets":   {body(cat([]byte{0x41, 0, 0x0e}, maxU32)...), "code", "declared"},
		"10^6 parameters": {module(section(idType, sig(strings.Repeat(i32, 1_000_000), ""))), "type",
			"1000000 parameters, over the limit"},
		"recursive type group":    {module(section(idType, []byte{0x4e, 1, 0x60, 0, 0})), "type", "garbage collection"},
		"tail call":               {body(0x12, 0), "code", "tail calls"},
		"shared memory":           {module(section(idMemory, []byte{3, 1, 1})), "memory", "threads"},
		"atomics":                 {body(0xfe, 0x01, 2, 0), "code", "threads"},
		"exceptions":              {body(0x06, 0x40, 0x0b), "code", "exception"},
		"tags":                    {module(types, rawSection(idTag, []byte{1, 0, 0})), "tag", "exception"},
		"memory64":                {module(section(idMemory, []byte{4, 1})), "memory", "64-bit"},
		"two memories":            {module(section(idMemory, []byte{0, 1}, []byte{0, 1})), "memory", "more than one"},
		"memory.size of memory 1": {body(0x3f, 1, 0x1a), "code", "more than one memory"},
		"load from memory 1":      {body(0x41, 0, 0x28, 0x42, 1, 0, 0x1a), "code", "more than one memory"},
		"relaxed SIMD":            {body(0xfd, 0x80, 2), "code", "relaxed"},
		"unassigned SIMD":         {body(0xfd, 0x9a, 1), "code", "unknown instruction"},
		"overlong SIMD opcode":    {body(0xfd, 0x8c, 0), "code", "shortest form"},
		"overlong opcode":         {body(0xfc, 0x80, 0), "code", "shortest form"},
		"lane out of range":       {body(0xfd, 0x15, 16), "code", "lane 16"},
		"extended constant": {module(section(idGlobal, []byte{0x7f, 0, 0x41, 1, 0x41, 1, 0x6a, opEnd})), "global",
			"extended"},
		"unknown opcode": {body(0xc5), "code", "unknown instruction 0xc5"},

		"section order":             {module(section(idMemory, []byte{0, 1}), types), "type", "out of order"},
		"section twice":             {module(types, types), "type", "repeated"},
		"unknown section":           {module(rawSection(14, nil)), "header", "unknown section"},
		"section too long":          {cat(magic, []byte{1, 9, 0}), "type", "declared"},
		"bytes after the last type": {module(rawSection(idType, []byte{0, 0})), "type", "left over"},
		"code without types":        {module(section(idCode, fn(nil))), "code", "0 functions declared, 1 bodies"},
		"types without code":        {module(types, oneFn), "code", "1 functions declared, 0 bodies"},
		"data count alone":          {module(rawSection(idDataCount, u(1))), "data", "1 segments declared"},
		"u32 of more than 32 bits": {module(rawSection(idType, []byte{0x80, 0x80, 0x80, 0x80, 0x10})), "type",
			"more than 32 bits"},
		"data count differs": {module(rawSection(idDataCount, u(1)), section(idData)), "data", "1 segments declared"},
		"i32 of 6 bytes":     {body(0x41, 0x80, 0x80, 0x80, 0x80, 0x80, 0, 0x1a), "code", "more than 32 bits"},
		"unused bits of i32": {body(0x41, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x1a), "code", "more than 32 bits"},
		"unused bits of i64": {body(0x42, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0x1a), "code",
			"more than 64"},
		"export twice": {module(section(idMemory, []byte{0, 1}),
			section(idExport, export("a", 2, 0), export("a", 2, 0))), "export", "second export"},
		"reserved fuel": {module(section(idMemory, []byte{0, 1}), section(idExport, export(FuelExport, 2, 0))),
			"export", "reserved"},
		"reserved global": {module(section(idMemory, []byte{0, 1}), section(idExport, export(globalPrefix+"0", 2, 0))),
			"export", "reserved"},
		"reserved import": {module(types, section(idImport, cat(str(ImportModule), str("x"), []byte{0, 0}))), "import",
			"reserved"},

		"fuel global in global.get":       {body(0x23, 1, 0x1a), "code", "global 1 is out of range"},
		"fuel global in global.set":       {body(0x42, 1, 0x24, 1), "code", "global 1 is out of range"},
		"call of refill":                  {body(opCall, 1), "code", "function 1 is out of range"},
		"type of refill":                  {body(0x02, 2, 0x0b), "code", "block type 2"},
		"cache local":                     {body(0x03, 0x40, 0x20, 0, 0x1a, 0x0b), "code", "local 0 is out of range"},
		"label":                           {body(0x0c, 1), "code", "label 1 is out of range"},
		"table out of range":              {body(0x41, 0, opCallIndirect, 0, 1), "code", "table 1 is out of range"},
		"element segment out of range":    {body(0xfc, 13, 0), "code", "element segment 0 is out of range"},
		"data segment without data count": {body(0xfc, 9, 0), "code", "without a data count"},
		"start function out of range": {module(types, oneFn, rawSection(idStart, u(1)), empty), "start",
			"function 1"},
		"fuel global exported": {module(section(idExport, export("x", 3, 0))), "export", "global 0 is out of range"},
		"start function with parameter": {module(section(idType, sig(i32, "")), oneFn, rawSection(idStart, u(0)),
			empty), "start", "(i32) -> ()"},
		"reserved start export": {module(types, oneFn, section(idExport, export(StartExport, 0, 0)), empty),
			"export", "reserved"},
		"memory.size without memory": {module(types, oneFn, section(idCode, fn(nil, 0x3f, 0, 0x1a))), "code",
			"memory 0"},

		"end missing": {module(types, oneFn, section(idCode, sized([]byte{0, 0x02, 0x40, opEnd}))), "code",
			"inside a block"},
		"bytes after the end": {body(opEnd, 0x01), "code", "left over"},
		"compile bomb of branches": {body(cat([]byte{0x02, 0x40}, repeat(40_000, 0x41, 0, 0x0d, 0), []byte{0x0b})...),
			"code", "units of work"},
		"compile bomb of ifs":   {body(repeat(40_000, 0x41, 0, 0x04, 0x40, 0x01, 0x0b)...), "code", "units of work"},
		"compile bomb of loops": {body(repeat(10_000, 0x03, 0x40, 0x41, 0, 0x0d, 0, 0x0b)...), "code", "units of work"},
		"compile bomb of a branch table": {body(cat([]byte{0x02, 0x40, 0x41, 0, 0x0e}, u(1_000_000),
			make([]byte, 1_000_001), []byte{0x0b})...), "code", "units of work"},
		"else without if":    {body(0x02, 0x40, 0x05, 0x0b), "code", "else without"},
		"second else":        {body(0x41, 0, 0x04, 0x40, 0x05, 0x05, 0x0b), "code", "else without"},
		"nesting":            {body(repeat(30_000, 0x02, 0x40)...), "code", "nested deeper"},
		"operands of blocks": {body(repeat(1200, 0x02, 1, 0x0b)...), "code", "pass over"},
		"operands of branches": {body(cat([]byte{0x00, 0x02, 1}, repeat(1200, 0x0d, 0), []byte{0x0b})...), "code",
			"pass over"},
		"blocks times locals": {module(types, oneFn,
			section(idCode, fn(locals(50_000, I32), repeat(500, 0x02, 0x40, 0x0b)...))), "code", "blocks times locals"},
		"locals of all functions": {module(types, rawSection(idFunction, cat(u(50), make([]byte, 50))),
			rawSection(idCode, cat(u(50), repeat(50, fn(locals(49_999, I32))...)))), "code",
			"in all functions together"},
	} {
		_, err := Instrument(c.wasm, DefaultLimits())
		var e *Error
		expect.That(t, errors.As(err, &e) && e.Section == c.section && strings.Contains(e.Reason, c.reason) &&
			e.Offset >= 0 && e.Offset <= len(c.wasm), "%s: %v; want section %s, reason %q", name, err, c.section,
			c.reason)
	}
}

// TestErrorOffset compares the offset in an error with one counted by hand.
func TestErrorOffset(t *testing.T) {
	t.Parallel()
	wasm := module(section(idType, sig("", "")), section(idFunction, u(0)),
		section(idCode, fn(nil, 0x01, 0x41, 0, 0xfe)))
	//             8 + 2+1+3 = 14                + 2+1+1 = 18            + id, size, count = 21, size, locals = 23
	_, err := Instrument(wasm, DefaultLimits())
	want := "instrumenting module: code section, offset 26: instruction 0xfe: threads are not accepted"
	expect.That(t, err != nil && err.Error() == want, "got %v, want %s", err, want)
}

// TestTruncatedModules truncates a module at every byte. Between sections, the result may be a valid module.
func TestTruncatedModules(t *testing.T) {
	t.Parallel()
	wasm, complete := everything(), map[int]bool{}
	for r := (reader{data: wasm, pos: 8, end: len(wasm)}); ; {
		complete[r.pos] = true
		if _, _, ok := r.next(); !ok {
			break
		}
	}
	for n := range wasm {
		_, err := Instrument(wasm[:n:n], DefaultLimits())
		e := new(Error)
		expect.Must(t, err == nil || errors.As(err, &e) && e.Offset <= n, "truncated at %d: %v", n, err)
		expect.That(t, err != nil || complete[n], "truncated at %d: accepted", n)
	}
}

// TestAllocations limits the memory that instrumenting a small file with much control flow allocates.
func TestAllocations(t *testing.T) {
	const functions = 200
	types, bodies := make([][]byte, functions), make([][]byte, functions)
	for i := range functions {
		types[i], bodies[i] = u(0), fn(nil, repeat(500, 0x02, 0x40, 0x0b, opCall, 0)...)
	}
	wasm := module(section(idType, sig("", "")), section(idFunction, types...), section(idCode, bodies...))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	expect.Value(Instrument(wasm, DefaultLimits()))(t)
	runtime.ReadMemStats(&after)
	got := after.TotalAlloc - before.TotalAlloc
	expect.That(t, got <= uint64(120*len(wasm)), "%d bytes allocated for %d", got, len(wasm))
	t.Logf("%d bytes allocated for %d", after.TotalAlloc-before.TotalAlloc, len(wasm))
}

// Version changes with each source.
func TestVersionCoversAllSources(t *testing.T) {
	t.Parallel()
	for _, name := range expect.Value(filepath.Glob("*.go"))(t) {
		if _, err := sources.Open(name); err != nil && name != "version.go" && !strings.HasSuffix(name, "_test.go") {
			t.Error(err)
		}
	}
}
