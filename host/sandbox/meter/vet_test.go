package meter

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"testing"
)

var limitless = []byte{0xff, 0xff, 0xff, 0xff, 0x0f} // 2^32-1

// body is a module of one function of type () -> () with that code, a table without a maximum, a memory and a global.
func body(code ...byte) []byte {
	return module(section(idType, sig("", ""), sig(i32, strings.Repeat(i64, 900))), section(idFunction, u(0)),
		section(idTable, []byte{0x70, 0, 1}), section(idMemory, []byte{0, 1}),
		section(idGlobal, []byte{0x7f, 1, 0x41, 0, opEnd}),
		section(idCode, fn(nil, code...)))
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	types := section(idType, sig("", ""))
	oneFn := section(idFunction, u(0))
	empty := section(idCode, fn(nil))
	imported := func(kind byte, rest ...byte) []byte {
		return module(types, section(idImport, cat(str("env"), str("x"), []byte{kind}, rest)))
	}
	many := func(n int, item []byte) []byte { return bytes.Repeat(item, n) }
	for name, c := range map[string]struct {
		wasm    []byte
		section string
		reason  string
	}{
		"Z26 empty":        {nil, "header", "empty file"},
		"Z26 gzip":         {[]byte("\x1f\x8b\x08\x00abcdef"), "header", "gzip"},
		"Z26 ELF":          {[]byte("\x7fELF\x02\x01\x01\x00"), "header", "ELF"},
		"Z26 magic":        {[]byte("\x00asn\x01\x00\x00\x00"), "header", "magic"},
		"Z26 version":      {[]byte("\x00asm\x02\x00\x00\x00"), "header", "version"},
		"Z26 component":    {[]byte("\x00asm\x0d\x00\x01\x00"), "header", "component"},
		"Z26 cut":          {[]byte("\x00as"), "header", "truncated"},
		"Z26 100 MB zeros": {make([]byte, 100<<20), "header", "over the limit"},
		"Z27 50 MB names": {module(rawSection(0, cat(str("name"), make([]byte, 50<<20)))), "header",
			"over the limit"},
		"Z27 UTF-8":          {module(rawSection(0, cat(u(2), []byte{0xff, 0xfe}))), "custom", "UTF-8"},
		"Z10 memory minimum": {module(section(idMemory, cat([]byte{0}, u(65536)))), "memory", "65536 pages"},
		"Z13 table.grow":     {body(0xd0, 0x70, 0x41, 0, 0xfc, 15, 0, 0x1a), "code", "no maximum"},
		"Z14 64 tables": {module(rawSection(idTable, cat(u(64), many(64, cat([]byte{0x70, 0}, u(1<<27)))))), "table",
			"64 tables, over the limit"},
		"Z14 table minimum": {module(section(idTable, cat([]byte{0x70, 0}, u(1<<27)))), "table", "134217728 entries"},
		"Z14 five tables": {module(cat([]byte{idTable}, sized(cat(u(5), many(5, []byte{0x70, 0, 1}))))), "table",
			"5 tables, over the limit"},
		"Z19 10000 imports": {module(types,
			rawSection(idImport, cat(u(10000), many(10000, cat(str("a"), str("b"), []byte{0, 0}))))),
			"import", "10000 imports, over the limit"},
		"Z19 memory import": {imported(2, 0, 1), "import", "import of memory"},
		"Z19 table import":  {imported(1, 0x70, 0, 1), "import", "import of table"},
		"Z19 global import": {imported(3, 0x7f, 0), "import", "import of global"},
		"Z20 2^32-1 locals": {module(types, oneFn, section(idCode, sized(cat(u(1), limitless, []byte{0x7f, opEnd})))),
			"code",
			"4294967295 locals"},
		"Z20 locals that wrap": {module(types, oneFn,
			section(idCode, sized(cat(u(2), limitless, []byte{0x7f, 1, 0x7f, opEnd})))),
			"code", "4294967295 locals"},
		"Z21 types":      {module(rawSection(idType, limitless)), "type", "announced"},
		"Z21 imports":    {module(types, rawSection(idImport, limitless)), "import", "announced"},
		"Z21 functions":  {module(types, rawSection(idFunction, limitless)), "function", "announced"},
		"Z21 tables":     {module(rawSection(idTable, limitless)), "table", "announced"},
		"Z21 memories":   {module(rawSection(idMemory, limitless)), "memory", "announced"},
		"Z21 globals":    {module(rawSection(idGlobal, limitless)), "global", "announced"},
		"Z21 exports":    {module(rawSection(idExport, limitless)), "export", "announced"},
		"Z21 elements":   {module(rawSection(idElement, limitless)), "element", "announced"},
		"Z21 entries":    {module(section(idElement, cat([]byte{1, 0}, limitless))), "element", "announced"},
		"Z21 codes":      {module(types, oneFn, rawSection(idCode, limitless)), "code", "announced"},
		"Z21 data":       {module(rawSection(idData, limitless)), "data", "announced"},
		"Z21 data count": {module(rawSection(idCount, limitless)), "data count", "over the limit"},
		"Z21 br_table":   {body(cat([]byte{0x41, 0, 0x0e}, limitless)...), "code", "announced"},
		"Z22 10^6 parameters": {module(section(idType, sig(strings.Repeat(i32, 1_000_000), ""))), "type",
			"1000000 parameters, over the limit"},
		"Z22 rec group":     {module(section(idType, []byte{0x4e, 1, 0x60, 0, 0})), "type", "garbage collection"},
		"Z07 tail call":     {body(0x12, 0), "code", "tail calls"},
		"Z30 shared memory": {module(section(idMemory, []byte{3, 1, 1})), "memory", "threads"},
		"Z30 atomics":       {body(0xfe, 0x01, 2, 0), "code", "threads"},
		"Z30 exceptions":    {body(0x06, 0x40, 0x0b), "code", "exception"},
		"Z30 tags":          {module(types, rawSection(idTag, []byte{1, 0, 0})), "tag", "exception"},
		"memory64":          {module(section(idMemory, []byte{4, 1})), "memory", "64-bit"},
		"two memories":      {module(section(idMemory, []byte{0, 1}, []byte{0, 1})), "memory", "more than one"},
		"memory 1":          {body(0x3f, 1, 0x1a), "code", "more than one memory"},
		"memory argument 1": {body(0x41, 0, 0x28, 0x42, 1, 0, 0x1a), "code", "more than one memory"},
		"relaxed SIMD":      {body(0xfd, 0x80, 2), "code", "relaxed"},
		"unassigned SIMD":   {body(0xfd, 0x9a, 1), "code", "unknown instruction"},
		"long opcode":       {body(0xfd, 0x8c, 0), "code", "shortest form"},
		"long misc opcode":  {body(0xfc, 0x80, 0), "code", "shortest form"},
		"lane":              {body(0xfd, 0x15, 16), "code", "lane 16"},
		"extended constant": {module(section(idGlobal, []byte{0x7f, 0, 0x41, 1, 0x41, 1, 0x6a, opEnd})), "global",
			"extended"},
		"unknown opcode": {body(0xc5), "code", "unknown instruction 0xc5"},

		"section order":      {module(section(idMemory, []byte{0, 1}), types), "type", "out of order"},
		"section twice":      {module(types, types), "type", "repeated"},
		"unknown section":    {module(rawSection(14, nil)), "header", "unknown section"},
		"section too long":   {cat(magic, []byte{1, 9, 0}), "type", "announced"},
		"section left over":  {module(rawSection(idType, []byte{0, 0})), "type", "left over"},
		"code without types": {module(section(idCode, fn(nil))), "code", "0 functions declared, 1 bodies"},
		"types without code": {module(types, oneFn), "code", "1 functions declared, 0 bodies"},
		"data count differs": {module(rawSection(idCount, u(1)), section(idData)), "data", "1 segments announced"},
		"data count alone":   {module(rawSection(idCount, u(1))), "data", "1 segments announced"},
		"long integer": {module(rawSection(idType, []byte{0x80, 0x80, 0x80, 0x80, 0x10})), "type",
			"more than 32 bits"},
		"longer integer":   {body(0x41, 0x80, 0x80, 0x80, 0x80, 0x80, 0, 0x1a), "code", "more than 32 bits"},
		"unused sign bits": {body(0x41, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x1a), "code", "more than 32 bits"},
		"unused bits of i64": {body(0x42, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0x1a), "code",
			"more than 64"},
		"export twice": {module(section(idMemory, []byte{0, 1}),
			section(idExport, export("a", 2, 0), export("a", 2, 0))), "export",
			"second export"},
		"reserved fuel": {module(section(idMemory, []byte{0, 1}), section(idExport, export(FuelExport, 2, 0))),
			"export", "reserved"},
		"reserved global": {module(section(idMemory, []byte{0, 1}), section(idExport, export(globalPrefix+"0", 2, 0))),
			"export",
			"reserved"},
		"reserved import": {module(types, section(idImport, cat(str(ImportModule), str("x"), []byte{0, 0}))), "import",
			"reserved"},

		"the fuel global, by get": {body(0x23, 1, 0x1a), "code", "global 1 is out of range"},
		"the fuel global, by set": {body(0x42, 1, 0x24, 1), "code", "global 1 is out of range"},
		"the fuel global, exported": {module(section(idExport, export("x", 3, 0))), "export",
			"global 0 is out of range"},
		"the refill function":    {body(opCall, 1), "code", "function 1 is out of range"},
		"the refill type":        {body(0x02, 2, 0x0b), "code", "block type 2"},
		"the cache local":        {body(0x03, 0x40, 0x20, 0, 0x1a, 0x0b), "code", "local 0 is out of range"},
		"label":                  {body(0x0c, 1), "code", "label 1 is out of range"},
		"table 1":                {body(0x41, 0, opIndirect, 0, 1), "code", "table 1 is out of range"},
		"element segment":        {body(0xfc, 13, 0), "code", "element segment 0 is out of range"},
		"data segment uncounted": {body(0xfc, 9, 0), "code", "without a data count"},
		"start":                  {module(types, oneFn, rawSection(idStart, u(1)), empty), "start", "function 1"},
		"start's type": {module(section(idType, sig(i32, "")), oneFn, rawSection(idStart, u(0)), empty),
			"start", "(i32) -> ()"},
		"start's export": {module(types, oneFn, section(idExport, export(StartExport, 0, 0)), empty),
			"export", "reserved"},
		"no memory": {module(types, oneFn, section(idCode, fn(nil, 0x3f, 0, 0x1a))), "code",
			"memory 0"},

		"end missing": {module(types, oneFn, section(idCode, sized([]byte{0, 0x02, 0x40, opEnd}))), "code",
			"inside a block"},
		"end too early":   {body(opEnd, 0x01), "code", "left over"},
		"else without if": {body(0x02, 0x40, 0x05, 0x0b), "code", "else without"},
		"two elses":       {body(0x41, 0, 0x04, 0x40, 0x05, 0x05, 0x0b), "code", "else without"},
		"nesting":         {body(many(30_000, []byte{0x02, 0x40})...), "code", "nested deeper"},
		"values of calls": {body(many(1200, []byte{0x02, 1, 0x0b})...), "code", "pass over"},
		"values of br": {body(cat([]byte{0x00, 0x02, 1}, many(1200, []byte{0x0d, 0}), []byte{0x0b})...), "code",
			"pass over"},
		"locals and blocks": {module(types, oneFn,
			section(idCode, fn(vec1b(u(50_000)), many(500, []byte{0x02, 0x40, 0x0b})...))),
			"code", "blocks times locals"},
		"all locals": {module(types, rawSection(idFunction, cat(u(50), make([]byte, 50))),
			rawSection(idCode, cat(u(50), many(50, fn(vec1b(u(49_999))))))), "code", "in all functions together"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for how, run := range map[string]func() error{
				"Vet":        func() error { _, err := Vet(c.wasm, DefaultLimits()); return err },
				"Instrument": func() error { _, err := Instrument(c.wasm, DefaultLimits()); return err },
			} {
				var e *Error
				if err := run(); !errors.As(err, &e) {
					t.Fatalf("%s: %v", how, err)
				}
				if e.Section != c.section || !strings.Contains(e.Reason, c.reason) || e.Offset < 0 ||
					e.Offset > len(c.wasm) {
					t.Errorf("%s: %v; want section %s, reason %q", how, e, c.section, c.reason)
				}
			}
		})
	}
}

func vec1b(n []byte) [][]byte { return [][]byte{cat(n, []byte{0x7f})} }

// TestOffset pins the offsets that errors name, in a file counted by hand.
func TestOffset(t *testing.T) {
	t.Parallel()
	wasm := module(section(idType, sig("", "")), section(idFunction, u(0)),
		section(idCode, fn(nil, 0x01, 0x41, 0, 0xfe)))
	//             8 + 2+1+3 = 14                + 2+1+1 = 18            + id, size, count = 21, size, locals = 23
	_, err := Vet(wasm, DefaultLimits())
	if want := "vetting module: code section, offset 26: instruction 0xfe: threads are not accepted"; err == nil || err.
		Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestPrefixes cuts a module at every byte (Z24). A cut between sections may leave a module whole.
func TestPrefixes(t *testing.T) {
	t.Parallel()
	wasm := everything()
	whole := map[int]bool{}
	for r := (reader{data: wasm, pos: 8, end: len(wasm)}); ; {
		whole[r.pos] = true
		if _, _, ok := r.next(); !ok {
			break
		}
	}
	for n := range wasm {
		_, err := Instrument(wasm[:n:n], DefaultLimits())
		if e := new(Error); err != nil && (!errors.As(err, &e) || e.Offset > n) {
			t.Fatalf("cut at %d: %v", n, err)
		}
		if err == nil && !whole[n] {
			t.Errorf("cut at %d: accepted", n)
		}
	}
}

// TestBounded vets files that announce much and hold little, and watches what that allocates.
func TestBounded(t *testing.T) {
	const functions = 200
	types, bodies := make([][]byte, functions), make([][]byte, functions)
	for i := range functions {
		types[i], bodies[i] = u(0), fn(nil, bytes.Repeat([]byte{0x02, 0x40, 0x0b, opCall, 0}, 500)...)
	}
	wasm := module(section(idType, sig("", "")), section(idFunction, types...), section(idCode, bodies...))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := Instrument(wasm, DefaultLimits()); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if got, most := after.TotalAlloc-before.TotalAlloc, uint64(120*len(wasm)); got > most {
		t.Errorf("%d bytes allocated for %d", got, len(wasm))
	}
	t.Logf("%d bytes allocated for %d", after.TotalAlloc-before.TotalAlloc, len(wasm))
}
