package meter

// scheme holds the choices of metering. Tests vary them; everything else uses defaultScheme.
type scheme struct {
	entry     uint32 // what entering a function costs
	frame     uint32 // values of a function that calls others, of which entering it costs another unit; 0: none
	loop      uint32 // what an iteration costs
	hostCall  uint32 // what a direct call of an import costs, besides itself
	segment   uint32 // instructions after which a straight piece of code gets another charge
	spacing   uint32 // most instructions between two looks at the fuel
	access    uint32 // instructions that a memory access counts as between two looks
	bulk      bool   // charge bulk operations by size
	atEntry   bool   // where to look at the fuel
	atLoop    bool
	afterCall bool
}

func defaultScheme() scheme {
	return scheme{entry: 3, frame: 16, loop: 1, hostCall: 64, segment: 512, spacing: 4096, access: 16,
		bulk: true, atEntry: true, atLoop: true, afterCall: true}
}

// segment is a stretch of a function that one charge at its start pays for: whatever of it runs, runs at most once
// after the charge, with no call and no loop between.
type segment struct {
	cost   uint32
	check  bool // look at the fuel after charging
	header bool // it begins a wrapped loop: look before charging, and leave the loop for the refill
}

// frame is a block that is open where the scanner stands.
type frame struct {
	kind     byte   // its opcode; opElse once an if has reached its else; 0 for the function
	dead     bool   // it began in code that nothing reaches
	targeted bool   // a branch leads to its end
	barrier  bool   // a call or a loop lies inside
	outer    int    // the outermost frame that a branch inside it leads to
	before   int    // the segment that reaches its start
	arity    int    // values that a branch to it passes
	wraps    int    // labels of our own from the function's start up to this frame, inclusive
	start    uint32 // distance at its start
	farthest uint32 // largest distance at any branch to its end
}

// planner decides, as the scanner walks a function, which code is charged where. It knows three things of the point
// where it stands: whether anything reaches it, which segment it belongs to, and its distance: the most instructions
// that any path to it has run since it last looked at the fuel.
type planner struct {
	scheme   scheme
	frames   []frame
	segments []segment
	edits    []edit
	live     bool
	stored   bool // the call just made left the fuel where a return must leave it
	loops    bool // the function has a loop that something reaches
	calls    bool // the function makes a call, which may run guest code, outside of any wrapped loop
	nests    bool // it makes such a call anywhere
	values   int  // instructions that something reaches
	nested   int  // loops that are open
	deepest  int  // most loops that were open at once
	paths    int  // blocks and branches: what a compiler makes a block of its own of
	current  int
	distance uint32
}

// edit is a change to a function's body: at a position of the file, what stands up to end is replaced.
type edit struct {
	at, end uint32
	n       uint32 // the segment, the new index, the end of a block type, the helper, or the shift
	kind    editKind
}

type editKind byte

const (
	editCharge  editKind = iota // pay for segment n
	editIndex                   // write index n
	editWrap                    // open the loop that wraps the one here, whose block type ends at n
	editUnwrap                  // close it
	editStore                   // store the fuel that a local caches
	editLoad                    // load it again
	editEntries                 // pay for the table entries that the operand on the stack counts
	editPages                   // pay for the pages that it counts
	editBytes                   // pay for the bytes that it counts, or have helper n do so piece by piece
)

func (p *planner) begin(at int, results int) {
	p.frames = append(p.frames[:0], frame{arity: results})
	p.segments, p.edits = p.segments[:0], p.edits[:0]
	p.live, p.stored, p.loops, p.calls, p.nests, p.values = true, false, false, false, false, 0
	p.nested, p.deepest, p.paths = 0, 0, 0
	p.insert(at, editLoad, 0)
	p.open(at, segment{cost: p.scheme.entry, check: p.scheme.atEntry})
}

// insert adds an edit that replaces nothing. Positions fit 32 bits because the file does.
func (p *planner) insert(at int, kind editKind, n int) {
	p.edits = append(p.edits, edit{at: uint32(at), end: uint32(at), n: uint32(n), kind: kind})
}

// replace adds an edit that writes index n in place of what stands from at to end.
func (p *planner) replace(at, end int, n uint32) {
	p.edits = append(p.edits, edit{at: uint32(at), end: uint32(end), n: n, kind: editIndex})
}

// open starts a segment.
func (p *planner) open(at int, s segment) {
	p.current = len(p.segments)
	p.segments = append(p.segments, s)
	p.insert(at, editCharge, p.current)
	if s.check {
		p.distance = 0
	}
}

// split ends a segment that has grown long, or that has run far since the fuel was last looked at.
func (p *planner) split(at int) {
	if !p.live {
		return
	}
	if far := p.distance >= p.scheme.spacing; far || p.segments[p.current].cost >= p.scheme.segment {
		p.open(at, segment{check: far})
	}
}

// spend counts an instruction.
func (p *planner) spend(cost uint32) {
	if p.live {
		p.values++
		p.segments[p.current].cost += cost
		p.distance += cost
	}
}

// accesses counts what a memory access may take beyond another instruction: the system may have to find the page.
func (p *planner) accesses() {
	if p.live && p.scheme.access > 0 {
		p.distance += p.scheme.access - 1
	}
}

// enter opens a block, loop or if, which stands from at to body.
func (p *planner) enter(kind byte, at, body int, params, results int) {
	f := frame{kind: kind, dead: !p.live, outer: len(p.frames), before: p.current, arity: results, start: p.distance,
		wraps: p.frames[len(p.frames)-1].wraps}
	p.paths++
	if kind == opLoop {
		f.arity = params
		p.paths += loopPaths
		p.nested++
		p.deepest = max(p.deepest, p.nested)
	}
	if p.live {
		switch kind {
		case opLoop:
			p.loops = true
			header := params == 0 && p.scheme.atLoop
			if header {
				f.wraps += wrapLabels
				p.insert(at, editWrap, body)
			}
			p.open(body, segment{cost: p.scheme.loop, check: p.scheme.atLoop, header: header})
		case opIf:
			p.open(body, segment{})
		}
	}
	p.frames = append(p.frames, f)
}

// loopPaths is how many more blocks a loop counts as.
const loopPaths = 4

// work is what compiling the function may take beyond linear time, in the unit of [Limits].
func (p *planner) work(joins int) int { return p.paths*p.paths + p.deepest*joins }

// otherwise passes from an if's first branch to its second.
func (p *planner) otherwise(at int) {
	f := &p.frames[len(p.frames)-1]
	f.kind = opElse
	if f.dead {
		return
	}
	if p.live {
		f.targeted = true
		f.farthest = max(f.farthest, p.distance)
	}
	p.live, p.distance = true, f.start
	p.open(at, segment{})
}

// end closes the innermost block; at is where its continuation stands. The continuation runs only after the segment
// before the block has. So the latter pays for it, if every path through the block ends here, and if neither a call
// nor a loop lies between: what is paid for must not stay unlooked-at while others run. Otherwise the continuation pays
// for itself.
func (p *planner) end(at int) {
	f := p.frames[len(p.frames)-1]
	p.frames = p.frames[:len(p.frames)-1]
	if f.kind == opLoop {
		p.nested--
	}
	if len(p.frames) == 0 {
		return
	}
	up := &p.frames[len(p.frames)-1]
	if f.dead {
		p.live = false
		return
	}
	if f.wraps > up.wraps {
		p.insert(at, editUnwrap, 0)
	}
	up.outer = min(up.outer, f.outer)
	up.barrier = up.barrier || f.barrier || f.kind == opLoop
	through := p.live // reached from the instruction before
	switch {
	case f.kind == opIf:
		p.distance = max(f.start, f.farthest, p.reached())
		p.live, f.targeted = true, true
	case f.kind == opLoop:
		f.targeted = through // branches lead to its start
	default:
		p.distance = max(f.farthest, p.reached())
		p.live = through || f.targeted
	}
	if !p.live || !f.targeted {
		return
	}
	inside := len(p.frames) // the index that the frame had
	switch {
	case p.distance >= p.scheme.spacing:
		p.open(at, segment{check: true})
	case f.barrier, f.kind == opLoop, f.outer < inside, p.segments[f.before].cost >= p.scheme.segment:
		p.open(at, segment{})
	default:
		p.current = f.before
	}
}

func (p *planner) reached() uint32 {
	if p.live {
		return p.distance
	}
	return 0
}

// branch notes a branch to the frame that depth counts outwards to, and says what it will count when loops are wrapped.
func (p *planner) branch(depth uint32) uint32 {
	to := len(p.frames) - 1 - int(depth)
	p.paths++
	inner := &p.frames[len(p.frames)-1]
	depth += uint32(inner.wraps - p.frames[to].wraps)
	if !p.live {
		return depth
	}
	inner.outer = min(inner.outer, to)
	if f := &p.frames[to]; f.kind != opLoop {
		f.targeted = true
		f.farthest = max(f.farthest, p.distance)
	}
	return depth
}

func (p *planner) leave() { p.live = false }

// calling precedes a call: what is called needs to see the fuel.
func (p *planner) calling(at int) {
	if p.live {
		p.insert(at, editStore, 0)
	}
}

// called follows a call of guest code, or what may be: what comes after is charged after, and looked at. A call that is
// the last thing its function does needs neither.
func (p *planner) called(at int, host, last bool) {
	if !p.live {
		return
	}
	p.nests = p.nests || !host
	p.calls = p.calls || !host && p.frames[len(p.frames)-1].wraps == 0
	if last {
		p.stored = true
		return
	}
	p.insert(at, editLoad, 0)
	if host {
		return
	}
	p.frames[len(p.frames)-1].barrier = true
	p.open(at, segment{check: p.scheme.afterCall})
}

// returning precedes an instruction that may leave the function.
func (p *planner) returning(at int) {
	if p.live && !p.stored {
		p.insert(at, editStore, 0)
	}
	p.stored = false
}

// settle drops the look on entry from a function that runs no other before a loop of its own has looked: its caller
// looks soon. And it charges for the frame that a call takes: an engine may keep any value that an instruction makes,
// that is passed, or that paths join in, in a place of its own, used or not; and between two looks a deep stack must
// not grow much.
func (p *planner) settle(more int) {
	p.segments[0].check = p.segments[0].check && p.calls
	if values := p.values + more; p.nests && p.scheme.frame > 0 && values > smallFrame {
		p.segments[0].cost += uint32(values-smallFrame) / p.scheme.frame
	}
}

// smallFrame is how many values a function may have whose entry costs no more than another's.
const smallFrame = 64
