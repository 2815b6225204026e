package meter

// policy holds the costs of instructions and the rules for fuel checks. Only tests use another policy.
type policy struct {
	entryCost       uint32 // of entering a function
	valuesPerUnit   uint32 // values of a stack frame for each extra unit charged on entry; 0: free
	iterationCost   uint32 // of a loop iteration
	maxBlock        uint32 // cost at which a metered block is split
	maxDistance     uint32 // instructions between two fuel checks
	accessDistance  uint32 // instructions that a memory access counts as between two fuel checks
	chargeBulk      bool   // charge bulk operations by size
	checkEntry      bool   // check the fuel on function entry
	checkLoops      bool   // ... at loop headers
	checkAfterCalls bool   // ... after calls of guest code
}

func defaultPolicy() policy {
	return policy{entryCost: 3, valuesPerUnit: 16, iterationCost: 1, maxBlock: 512, maxDistance: 4096,
		accessDistance: 16, chargeBulk: true, checkEntry: true, checkLoops: true, checkAfterCalls: true}
}

// ImportCost is the fuel charged for a call of an import, which counts as that many instructions between two checks.
const ImportCost = 64

// meteredBlock is code of a function that a single charge at its start pays for. Each of its instructions runs at most
// once after the charge, and no call or loop runs in between.
type meteredBlock struct {
	cost       uint32
	check      bool // check the fuel after the charge
	loopHeader bool // the start of a wrapped loop: check before the charge, and leave the loop for a refill
}

// controlFrame is an open block, as in the control stack of the specification's validation algorithm.
type controlFrame struct {
	opcode        byte   // opElse in the second branch of an if; 0 for the function
	unreachable   bool   // the block starts in unreachable code
	targeted      bool   // a branch leads to the block's end
	hasBarrier    bool   // the block contains a call or a loop
	outermost     int    // index of the outermost frame that a branch inside the block leads to
	entryBlock    int    // metered block that contains the block's start
	labelArity    int    // number of values that a branch to the block passes
	addedLabels   int    // labels that instrumentation adds around this block and those outside it
	startDistance uint32 // distance at the block's start
	exitDistance  uint32 // maximum distance at a branch to the block's end
}

// planner divides a function body into metered blocks as the parser walks through it, and collects the edits that
// charge for them.
type planner struct {
	policy policy
	frames []controlFrame
	blocks []meteredBlock
	edits  []edit

	reachable bool   // the current position is reachable
	current   int    // metered block of the current position
	distance  uint32 // maximum number of instructions on any path from the last fuel check to the current position
	flushed   bool   // after the last call of a function: only the global is up to date, the cache is not

	hasLoop          bool // the function has a reachable loop
	callsGuest       bool // it has a reachable call that may run guest code
	callsOutsideLoop bool // such a call is outside all wrapped loops
	values           int  // reachable instructions, each of which may produce a value
	loopDepth        int  // open loops
	maxLoopDepth     int
	basicBlocks      int // estimate of the number of basic blocks that a compiler creates
}

// edit replaces the bytes from at to end of the file.
type edit struct {
	at, end uint32
	n       uint32 // depends on kind
	kind    editKind
}

type editKind byte

const (
	editCharge        editKind = iota // charge for metered block n
	editIndex                         // write index n
	editOpenWrapper                   // open the wrapper of the loop at this position, whose block type ends at n
	editCloseWrapper                  // close the wrapper
	editFlush                         // write the cached fuel to the global
	editReload                        // read the fuel from the global into the cache
	editChargeEntries                 // charge for as many table entries as the operand on the stack
	editChargePages                   // charge for as many pages
	editBulkMemory                    // charge for as many bytes, or call helper n, which charges for each chunk
)

// begin starts a function whose code starts at position at.
func (p *planner) begin(at int, results int) {
	*p = planner{policy: p.policy, frames: append(p.frames[:0], controlFrame{labelArity: results}),
		blocks: p.blocks[:0], edits: p.edits[:0], reachable: true}
	p.insert(at, editReload, 0)
	p.openBlock(at, meteredBlock{cost: p.policy.entryCost, check: p.policy.checkEntry})
}

// insert adds an edit that replaces nothing. Positions fit into 32 bits because the size of the file does.
func (p *planner) insert(at int, kind editKind, n int) {
	p.edits = append(p.edits, edit{at: uint32(at), end: uint32(at), n: uint32(n), kind: kind})
}

// replaceIndex adds an edit that writes index n in place of the bytes from at to end.
func (p *planner) replaceIndex(at, end int, n uint32) {
	p.edits = append(p.edits, edit{at: uint32(at), end: uint32(end), n: n, kind: editIndex})
}

// openBlock starts a metered block.
func (p *planner) openBlock(at int, b meteredBlock) {
	p.current = len(p.blocks)
	p.blocks = append(p.blocks, b)
	p.insert(at, editCharge, p.current)
	if b.check {
		p.distance = 0
	}
}

// splitBlock starts a new metered block if the current one is long or the last fuel check is far back. After the last
// call of a function it must not: a charge would read the cache, which lacks the fuel that the call burned.
func (p *planner) splitBlock(at int) {
	if !p.reachable || p.flushed {
		return
	}
	if far := p.distance >= p.policy.maxDistance; far || p.blocks[p.current].cost >= p.policy.maxBlock {
		p.openBlock(at, meteredBlock{check: far})
	}
}

// addCost adds the cost of an instruction to the current metered block.
func (p *planner) addCost(cost uint32) {
	if p.reachable {
		p.values++
		p.blocks[p.current].cost += cost
		p.distance += cost
	}
}

// memoryAccess adds the distance of a memory access, which may take longer than other instructions because the system
// may have to allocate the page.
func (p *planner) memoryAccess() {
	if p.reachable && p.policy.accessDistance > 0 {
		p.distance += p.policy.accessDistance - 1
	}
}

// enterBlock opens a block, loop or if. Its opcode is at position at, and its first instruction at body.
func (p *planner) enterBlock(opcode byte, at, body int, params, results int) {
	f := controlFrame{opcode: opcode, unreachable: !p.reachable, outermost: len(p.frames), entryBlock: p.current,
		labelArity: results, startDistance: p.distance, addedLabels: p.frames[len(p.frames)-1].addedLabels}
	p.basicBlocks++
	if opcode == opLoop {
		f.labelArity = params
		p.basicBlocks += loopBasicBlocks
		p.loopDepth++
		p.maxLoopDepth = max(p.maxLoopDepth, p.loopDepth)
	}
	if p.reachable {
		switch opcode {
		case opLoop:
			p.hasLoop = true
			wrapped := params == 0 && p.policy.checkLoops
			if wrapped {
				f.addedLabels += wrapperLabels
				p.insert(at, editOpenWrapper, body)
			}
			p.openBlock(body, meteredBlock{cost: p.policy.iterationCost, check: p.policy.checkLoops,
				loopHeader: wrapped})
		case opIf:
			p.openBlock(body, meteredBlock{})
		}
	}
	p.frames = append(p.frames, f)
}

// loopBasicBlocks is the number of basic blocks that a loop counts in addition to those of a block.
const loopBasicBlocks = 4

// compileWork returns the function's share of [Limits.CompileWork].
func (p *planner) compileWork(joins int) int {
	return p.basicBlocks*p.basicBlocks + p.maxLoopDepth*joins
}

// elseBranch starts the second branch of an if.
func (p *planner) elseBranch(at int) {
	f := &p.frames[len(p.frames)-1]
	f.opcode = opElse
	if f.unreachable {
		return
	}
	if p.reachable {
		f.targeted = true
		f.exitDistance = max(f.exitDistance, p.distance)
	}
	p.reachable, p.distance = true, f.startDistance
	p.openBlock(at, meteredBlock{})
}

// endBlock closes the innermost block; at is the position after its end. The code there runs only if the metered block
// before the closed block has run. That metered block also pays for it if every path through the closed block ends here
// and there is no call or loop in between: prepaid code must not wait unchecked while other code runs. Otherwise a new
// metered block starts.
func (p *planner) endBlock(at int) {
	f := p.frames[len(p.frames)-1]
	p.frames = p.frames[:len(p.frames)-1]
	if f.opcode == opLoop {
		p.loopDepth--
	}
	if len(p.frames) == 0 {
		return
	}
	parent := &p.frames[len(p.frames)-1]
	if f.unreachable {
		p.reachable = false
		return
	}
	if f.addedLabels > parent.addedLabels {
		p.insert(at, editCloseWrapper, 0)
	}
	parent.outermost = min(parent.outermost, f.outermost)
	parent.hasBarrier = parent.hasBarrier || f.hasBarrier || f.opcode == opLoop
	fallsThrough := p.reachable
	distance := f.exitDistance
	if fallsThrough {
		distance = max(distance, p.distance)
	}
	switch {
	case f.opcode == opIf: // without an else
		p.distance = max(f.startDistance, distance)
		p.reachable, f.targeted = true, true
	case f.opcode == opLoop:
		p.distance = distance
		f.targeted = fallsThrough // branches lead to the start of the loop
	default:
		p.distance = distance
		p.reachable = fallsThrough || f.targeted
	}
	if !p.reachable || !f.targeted {
		return
	}
	index := len(p.frames) // of the closed frame
	switch {
	case p.distance >= p.policy.maxDistance:
		p.openBlock(at, meteredBlock{check: true})
	case f.hasBarrier, f.opcode == opLoop, f.outermost < index, p.blocks[f.entryBlock].cost >= p.policy.maxBlock:
		p.openBlock(at, meteredBlock{})
	default:
		p.current = f.entryBlock
	}
}

// branch records a branch to the label with index depth (section 2.4.8), and returns the label's index in the
// instrumented code.
func (p *planner) branch(depth uint32) uint32 {
	target := len(p.frames) - 1 - int(depth)
	p.basicBlocks++
	inner := &p.frames[len(p.frames)-1]
	depth += uint32(inner.addedLabels - p.frames[target].addedLabels)
	if !p.reachable {
		return depth
	}
	inner.outermost = min(inner.outermost, target)
	if f := &p.frames[target]; f.opcode != opLoop {
		f.targeted = true
		f.exitDistance = max(f.exitDistance, p.distance)
	}
	return depth
}

// markUnreachable ends reachable code until the innermost block ends.
func (p *planner) markUnreachable() { p.reachable = false }

// beforeCall flushes the cached fuel for the called function.
func (p *planner) beforeCall(at int) {
	if p.reachable {
		p.insert(at, editFlush, 0)
	}
}

// afterCall reloads the fuel, and after a call that may run guest code it starts a metered block with a fuel check.
// The last call of a function needs neither.
func (p *planner) afterCall(at int, toImport, last bool) {
	if !p.reachable {
		return
	}
	frame := &p.frames[len(p.frames)-1]
	p.callsGuest = p.callsGuest || !toImport
	p.callsOutsideLoop = p.callsOutsideLoop || !toImport && frame.addedLabels == 0
	if last {
		p.flushed = true
		return
	}
	p.insert(at, editReload, 0)
	if toImport {
		return
	}
	frame.hasBarrier = true
	p.openBlock(at, meteredBlock{check: p.policy.checkAfterCalls})
}

// beforeReturn flushes the cached fuel before an instruction that may leave the function.
func (p *planner) beforeReturn(at int) {
	if p.reachable && !p.flushed {
		p.insert(at, editFlush, 0)
	}
	p.flushed = false
}

// finishEntry completes the charge at the function's entry.
//
// It removes the fuel check if the function calls guest code only in wrapped loops, which check, or not at all: the
// caller checks soon. It also charges for the stack frame of a function that calls guest code, because a deep stack
// must not grow much between two checks. An engine may give a stack slot to each value that an instruction produces,
// and to each of the passed or merged values.
func (p *planner) finishEntry(passedOrMerged int) {
	p.blocks[0].check = p.blocks[0].check && p.callsOutsideLoop
	if values := p.values + passedOrMerged; p.callsGuest && p.policy.valuesPerUnit > 0 && values > freeFrameValues {
		p.blocks[0].cost += uint32(values-freeFrameValues) / p.policy.valuesPerUnit
	}
}

// freeFrameValues is the number of values in a stack frame that cost nothing.
const freeFrameValues = 64
