package meter

import "slices"

func (p *program) controlFlow(depth int) {
	switch p.pick(7) {
	case 0:
		p.block(opBlock, depth)
	case 1, 2:
		p.block(opLoop, depth)
	case 3, 4:
		p.block(opIf, depth)
	case 5:
		p.indirect(depth)
	case 6: // a function that ends with a call inside a block
		p.value(byte(I32), depth)
		p.op(opIf, emptyBlock)
		p.labels = append(p.labels, "")
		if at := slices.IndexFunc(p.functions[functionAt:], p.returnsTheSame); at >= 0 {
			p.values(programTypes[p.functions[functionAt+at]].params, depth)
			p.op(opCall, byte(functionAt+at))
		} else {
			p.values(p.results, depth)
		}
		p.op(opReturn)
		p.labels = p.labels[:len(p.labels)-1]
		p.free(opEnd)
	}
}

// block appends a block, loop or if of any type, and drops its results.
func (p *program) block(opcode byte, depth int) {
	at := p.pick(len(programTypes))
	t := programTypes[at]
	p.values(t.params, depth)
	blockType := byte(at)
	switch {
	case t.params == "" && t.results == "" && p.pick(2) == 0:
		blockType = emptyBlock
	case t.params == "" && len(t.results) == 1 && p.pick(2) == 0:
		blockType = t.results[0]
	}
	if opcode == opIf {
		p.value(byte(I32), depth)
		p.op(opcode, blockType)
	} else {
		p.free(opcode, blockType)
	}
	label := t.results
	if opcode == opLoop {
		label = t.params
	}
	p.labels = append(p.labels, label)
	if opcode == opLoop {
		p.count(1)
		p.takeStep()
	}
	p.body(t.params, t.results, depth+1)
	if opcode == opLoop && len(t.results) == 0 && p.pick(2) == 1 { // again, unless a counter is zero
		p.values(t.params, depth)
		p.op(opLocalGet, byte(len(p.locals)-localI32s-localI64s))
		p.constant(byte(I32), 1)
		p.op(opI32Sub)
		p.op(opLocalTee, byte(len(p.locals)-localI32s-localI64s))
		p.op(opBrIf, 0)
		for range t.params {
			p.op(0x1a)
		}
	}
	if opcode == opIf && (t.params != t.results || p.pick(2) == 1) {
		p.free(opElse)
		p.body(t.params, t.results, depth+1)
	}
	p.labels = p.labels[:len(p.labels)-1]
	p.free(opEnd)
	for range t.results {
		p.op(0x1a)
	}
}

// valueOfBlock appends a block, loop or if with a result.
func (p *program) valueOfBlock(t byte, depth int) {
	opcode := [...]byte{opBlock, opLoop, opIf}[p.pick(3)]
	label := string(rune(t))
	if opcode == opIf {
		p.value(byte(I32), depth+1)
		p.op(opcode, t)
	} else {
		p.free(opcode, t)
	}
	if opcode == opLoop {
		label = ""
	}
	p.labels = append(p.labels, label)
	if opcode == opLoop {
		p.count(1)
		p.takeStep()
	}
	p.body("", string(rune(t)), depth+1)
	if opcode == opIf {
		p.free(opElse)
		p.body("", string(rune(t)), depth+1)
	}
	p.labels = p.labels[:len(p.labels)-1]
	p.free(opEnd)
}

// leave appends an instruction after which code is dead.
func (p *program) leave(depth int) {
	switch p.pick(6) {
	case 0:
		p.branch(opBr, p.pick(len(p.labels)), depth)
	case 1:
		p.values(p.results, depth)
		p.op(opReturn)
	case 2:
		if p.pick(8) != 1 { // seldom, because it ends the program
			p.branch(opBr, 0, depth)
			return
		}
		p.op(opUnreachable)
	case 3:
		p.branch(opBr, len(p.labels)-1, depth)
	default:
		p.branchTable(depth)
	}
}

// branch appends a branch to the label with the given depth. The condition of br_if is on the stack.
func (p *program) branch(opcode byte, label, depth int) {
	types := p.labels[len(p.labels)-1-label]
	if opcode == opBrIf {
		local, _ := p.local(byte(I32))
		p.op(opLocalSet, local)
		p.values(types, depth)
		p.op(opLocalGet, local)
		p.op(opBrIf, byte(label))
		for range types {
			p.op(0x1a)
		}
		return
	}
	p.values(types, depth)
	p.op(opcode, byte(label))
}

// branchTable appends a br_table to labels of the same type.
func (p *program) branchTable(depth int) {
	last := p.pick(len(p.labels))
	types := p.labels[len(p.labels)-1-last]
	var targets [][]byte
	for range p.pick(5) {
		if l := p.pick(len(p.labels)); p.labels[len(p.labels)-1-l] == types {
			targets = append(targets, []byte{byte(l)})
		}
	}
	p.values(types, depth)
	p.value(byte(I32), depth)
	if p.pick(2) == 1 {
		p.constant(byte(I32), 3)
		p.op(0x71)
	}
	p.op(cat([]byte{opBrTable}, vec(targets...), []byte{byte(last)})...)
}

// call appends a call, and drops its results.
func (p *program) call(function, depth int) {
	p.callFor(function, depth)
	for range programTypes[p.functions[function]].results {
		p.op(0x1a)
	}
}

func (p *program) callFor(function, depth int) {
	p.values(programTypes[p.functions[function]].params, depth)
	p.op(opCall, byte(function))
}

// callValue appends a call of a function with one result of the given type, if there is one.
func (p *program) callValue(t byte, depth int) {
	first := p.pick(len(p.functions))
	for i := range p.functions {
		at := (first + i) % len(p.functions)
		if programTypes[p.functions[at]].results == string(rune(t)) {
			p.callFor(at, depth+1)
			return
		}
	}
	p.constant(t, 4)
}

// indirect appends an indirect call, and drops its results. It traps unless the types match.
func (p *program) indirect(depth int) {
	entry := p.pick(6)
	t := p.functions[entry%len(p.functions)]
	p.values(programTypes[t].params, depth)
	if p.pick(8) == 1 {
		p.value(byte(I32), depth)
	} else {
		p.constant(byte(I32), int64(entry))
	}
	p.op(opCallIndirect, t, 0)
	for range programTypes[t].results {
		p.op(0x1a)
	}
}

// takeStep takes one of the program's steps, or returns from the function if none is left.
func (p *program) takeStep() {
	p.op(opGlobalGet, globalSteps)
	p.op(0x45)
	p.op(opIf, emptyBlock)
	for _, t := range []byte(p.results) {
		p.constant(t, 1)
	}
	p.op(opReturn)
	p.free(opEnd)
	p.op(opGlobalGet, globalSteps)
	p.constant(byte(I32), 1)
	p.op(opI32Sub)
	p.op(opGlobalSet, globalSteps)
}
