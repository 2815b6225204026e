package meter

import "slices"

// program generates a valid module from choices, which a fuzzer varies. Its functions use every kind of control flow.
// Every choice of zero is the simplest one, so that a program ends when the choices do.
//
// A program ends soon: each function entry and each loop iteration takes one of its steps, and without any left the
// function returns.
type program struct {
	choices []byte
	counted bool // add a global that counts the cost of everything that runs, as doc.go defines it

	code      []byte // of the current function
	functions []byte // type of each function, imports first
	locals    string // of the current function, with its parameters
	labels    []string
	results   string // of the current function
	nodes     int    // left
}

// Types of functions and blocks.
var programTypes = []struct{ params, results string }{
	{"", ""}, {i32, i32}, {i64, i64}, {i32 + i32, i32}, {"", i32 + i64}, {i32 + i64, i32 + i64}, {i32, ""}, {"", i64},
	{i64 + i32, ""}, {"", i32},
}

// Indices of a program.
const (
	typeRun = 5 // of the exported function, which is the first one

	importMix  = 0 // (i32, i32) -> i32: writes to the memory and burns fuel
	importNote = 1 // (i32): records its argument
	functionAt = 2 // the first function

	globalSteps = 0
	globalI32   = 1
	globalI64   = 2
	globalCount = 3 // only if the program is counted

	programPages    = 2
	programMaxPages = 4
	passiveBytes    = 100
	tableEntries    = 8
	mixFuel         = 100

	localI32s, localI64s = 3, 2
)

// newProgram returns the module.
func newProgram(choices []byte, counted bool) []byte {
	p := &program{choices: choices, counted: counted, functions: []byte{3, 6}, nodes: 600}
	p.functions = append(p.functions, typeRun)
	for range p.pick(6) {
		p.functions = append(p.functions, byte(p.pick(len(programTypes))))
	}
	steps := 20 + 4*p.pick(64)
	start := p.pick(4) == 1
	var bodies, declared [][]byte
	for _, t := range p.functions[functionAt:] {
		declared = append(declared, u(uint32(t)))
		bodies = append(bodies, p.function(programTypes[t].params, programTypes[t].results))
	}
	types := make([][]byte, len(programTypes))
	for i, t := range programTypes {
		types[i] = sig(t.params, t.results)
	}
	entries := make([][]byte, 6)
	for i := range entries {
		entries[i] = u(uint32(i % len(p.functions)))
	}
	globals := [][]byte{cat([]byte{byte(I32), 1, opI32Const}, s(int64(steps)), []byte{opEnd}),
		{byte(I32), 1, opI32Const, 7, opEnd}, {byte(I64), 1, opI64Const, 9, opEnd}}
	exports := [][]byte{export("run", FunctionKind, functionAt), export("memory", MemoryKind, 0),
		export("g1", GlobalKind, globalI32), export("g2", GlobalKind, globalI64), export("g0", GlobalKind, globalSteps)}
	if counted {
		globals = append(globals, []byte{byte(I64), 1, opI64Const, 0, opEnd})
		exports = append(exports, export("count", GlobalKind, globalCount))
	}
	sections := [][]byte{
		section(idType, types...),
		section(idImport, cat(str("env"), str("mix"), []byte{0, 3}), cat(str("env"), str("note"), []byte{0, 6})),
		section(idFunction, declared...), section(idTable, []byte{byte(FuncRef), 1, tableEntries, tableEntries}),
		section(idMemory, []byte{1, programPages, programMaxPages}), section(idGlobal, globals...),
		section(idExport, exports...),
	}
	if at := slices.Index(p.functions, 0); start && at >= functionAt {
		sections = append(sections, rawSection(idStart, u(uint32(at))))
	}
	return module(append(sections, section(idElement, cat([]byte{0, opI32Const, 0, opEnd}, vec(entries...)),
		cat([]byte{1, 0}, vec(entries...))), rawSection(idDataCount, u(2)), section(idCode, bodies...),
		section(idData, cat([]byte{0, opI32Const, 16, opEnd}, str("active data")),
			cat([]byte{1}, sized(repeat(passiveBytes, 'p')))))...)
}

// pick returns the next choice below n.
func (p *program) pick(n int) int {
	if len(p.choices) == 0 {
		return 0
	}
	c := int(p.choices[0])
	p.choices = p.choices[1:]
	return c % n
}

// kind returns the next choice below n, or 0 if the program is long enough.
func (p *program) kind(n int) int {
	if p.nodes--; p.nodes < 0 {
		return 0
	}
	return p.pick(n)
}

func (p *program) function(params, results string) []byte {
	p.code, p.results, p.labels = nil, results, []string{results}
	p.locals = params + i32 + i32 + i32 + i64 + i64
	p.count(3)
	p.takeStep()
	p.body("", results, 0)
	groups := [][]byte{{localI32s, byte(I32)}, {localI64s, byte(I64)}, {1, byte(I32)}} // the last is for countOperand
	return fn(groups, p.code...)
}

// op appends an instruction that costs one unit.
func (p *program) op(b ...byte) {
	p.count(1)
	p.free(b...)
}

// run appends a sequence of n instructions that contains no control flow and cannot trap.
func (p *program) run(n int, b []byte) {
	p.count(n)
	p.free(b...)
}

// free appends an instruction that costs nothing.
func (p *program) free(b ...byte) { p.code = append(p.code, b...) }

// count adds to the cost of what runs.
func (p *program) count(n int) {
	if p.counted {
		p.free(cat([]byte{opGlobalGet, globalCount, opI64Const}, s(int64(n)),
			[]byte{0x7c, opGlobalSet, globalCount})...)
	}
}

// countOperand adds the i32 on top of the stack, shifted by the instruction op, to the cost of what runs.
func (p *program) countOperand(shift, op byte) {
	if p.counted {
		local := byte(len(p.locals))
		p.free(opLocalTee, local, opGlobalGet, globalCount, opLocalGet, local, opI64ExtendU, opI64Const, shift, op,
			0x7c, opGlobalSet, globalCount)
	}
}

func (p *program) constant(t byte, x int64) {
	if t == byte(I32) {
		p.op(cat([]byte{opI32Const}, s(int64(int32(x))))...)
	} else {
		p.op(cat([]byte{opI64Const}, s(x))...)
	}
}

// body appends statements between a block's parameters and its results.
func (p *program) body(params, results string, depth int) {
	for _, t := range slices.Backward([]byte(params)) {
		if local, ok := p.local(t); ok && p.pick(2) == 1 {
			p.op(opLocalSet, local)
		} else {
			p.op(0x1a)
		}
	}
	for range p.pick(6) {
		p.statement(depth)
	}
	if p.nodes > 0 && p.pick(8) == 1 { // dead code, whose operands may be missing
		p.leave(depth)
		for range p.pick(3) {
			p.statement(depth)
		}
		if p.pick(2) == 1 {
			p.leave(depth)
			return
		}
	}
	p.values(results, depth)
}

// local returns a local of the given type.
func (p *program) local(t byte) (byte, bool) {
	first := p.pick(len(p.locals))
	for i := range len(p.locals) {
		if at := (first + i) % len(p.locals); p.locals[at] == t {
			return byte(at), true
		}
	}
	return 0, false
}

func (p *program) values(types string, depth int) {
	for _, t := range []byte(types) {
		p.value(t, depth+1)
	}
}

// lengths of sequences that end near the limits of a metered block and of the distance between two checks.
var lengths = []int{1, 2, 30, 500, 506, 507, 508, 509, 510, 511, 512, 513, 1020, 4070, 4080, 4085, 4086, 4087, 4088,
	4089, 4090, 4091, 4092, 4093, 4094, 4095, 4096, 4097}

// statement appends instructions that take no operands and leave none.
func (p *program) statement(depth int) {
	const simple = 11
	n := simple + 11
	if depth > 5 {
		n = simple
	}
	switch p.kind(n) {
	case 0:
		p.op(0x01)
	case 1:
		t := p.anyType()
		p.value(t, depth)
		if local, ok := p.local(t); ok {
			p.op(opLocalSet, local)
		}
	case 2:
		t := p.anyType()
		p.value(t, depth)
		p.op(opGlobalSet, globalOf(t))
	case 3:
		p.address(depth)
		t := p.anyType()
		p.value(t, depth)
		p.op(map[byte]byte{byte(I32): 0x36, byte(I64): 0x37}[t], 0, 8)
	case 4:
		n := lengths[p.pick(len(lengths))]
		p.run(n, repeat(n, 0x01))
	case 5:
		n := 1 + 16*p.pick(20) // loads from addresses that always exist
		p.run(3*n, repeat(n, opI32Const, 4, 0x28, 0, 0, 0x1a))
	case 6:
		p.bulk(depth)
	case 7:
		p.value(byte(I32), depth)
		p.op(opCall, importNote)
	case 8:
		p.value(p.anyType(), depth)
		p.op(0x1a)
	case 9:
		p.call(p.pick(len(p.functions)), depth)
	case 10:
		p.value(byte(I32), depth)
		p.branch(opBrIf, p.pick(len(p.labels)), depth)
	default: // control flow
		p.controlFlow(depth)
	}
}

func (p *program) returnsTheSame(functionType byte) bool {
	return programTypes[functionType].results == p.results
}

func (p *program) anyType() byte { return [2]byte{byte(I32), byte(I64)}[p.pick(2)] }

func globalOf(t byte) byte {
	if t == byte(I32) {
		return globalI32
	}
	return globalI64
}

// address appends an address that is seldom out of bounds.
func (p *program) address(depth int) {
	p.value(byte(I32), depth)
	if p.pick(8) != 1 {
		p.constant(byte(I32), 0xffff)
		p.op(0x71)
	}
}

// bulk appends a bulk memory instruction.
func (p *program) bulk(depth int) {
	size := func(most int64) {
		switch p.pick(6) {
		case 0, 1:
			p.constant(byte(I32), most)
		case 2:
			p.value(byte(I32), depth)
		default:
			p.value(byte(I32), depth)
			p.constant(byte(I32), most)
			p.op(0x70) // i32.rem_u
		}
		p.countOperand(byteShift, opI64ShrU)
	}
	near := func() {
		p.value(byte(I32), depth)
		p.constant(byte(I32), 0xff)
		p.op(0x71)
	}
	switch p.pick(4) {
	case 0:
		near()
		p.value(byte(I32), depth)
		size(programPages*pageBytes - 300)
		p.op(opMisc, memoryFill, 0)
	case 1:
		near()
		near()
		size(programPages*pageBytes - 300)
		p.op(opMisc, memoryCopy, 0, 0)
	case 2:
		near()
		p.constant(byte(I32), 0)
		size(passiveBytes)
		p.op(opMisc, memoryInit, 1, 0)
	case 3:
		p.constant(byte(I32), int64(p.pick(3)))
		p.countOperand(pageShift, opI64Shl)
		p.op(0x40, 0)
		p.op(0x1a)
	}
}

const pageBytes = 64 << 10

// value appends an expression of the given type.
func (p *program) value(t byte, depth int) {
	const simple = 4
	n := simple + 9
	if depth > 5 {
		n = simple
	}
	switch p.kind(n) {
	case 0:
		p.constant(t, 1)
	case 1:
		p.constant(t, int64(int8(p.pick(256)))*int64(1+p.pick(256)))
	case 2:
		if local, ok := p.local(t); ok {
			p.op(opLocalGet, local)
		} else {
			p.constant(t, 2)
		}
	case 3:
		p.op(opGlobalGet, globalOf(t))
	case 4:
		p.value(t, depth+1)
		p.value(t, depth+1)
		p.operator(t)
	case 5:
		p.address(depth + 1)
		p.op(map[byte]byte{byte(I32): 0x28, byte(I64): 0x29}[t], 0, 8)
	case 6:
		p.value(t, depth+1)
		p.value(t, depth+1)
		p.value(byte(I32), depth+1)
		p.op(opSelect)
	case 7:
		p.valueOfBlock(t, depth)
	case 8:
		p.callValue(t, depth)
	case 9:
		p.value(t, depth+1)
		if local, ok := p.local(t); ok {
			p.op(opLocalTee, local)
		}
	case 10:
		p.value(byte(I32)+byte(I64)-t, depth+1)
		p.op(map[byte]byte{byte(I32): 0xa7, byte(I64): 0xac}[t]) // i32.wrap_i64, i64.extend_i32_s
	case 11:
		p.constant(t, 3)
		p.statement(depth + 1) // below the statement's own operands
	case 12:
		if p.op(0x3f, 0); t == byte(I64) {
			p.op(opI64ExtendU)
		}
	}
}

// operator appends a binary operator.
func (p *program) operator(t byte) {
	add := map[byte]byte{byte(I32): 0x6a, byte(I64): 0x7c}[t]
	switch op := byte(p.pick(16)); op {
	case 3, 4, 5, 6: // division and remainder trap for zero
		if p.pick(8) != 1 {
			p.constant(t, 1)
			p.op(add + 8) // or
		}
		p.op(add + op)
	case 15:
		p.op(add)
	default:
		p.op(add + op)
	}
}
