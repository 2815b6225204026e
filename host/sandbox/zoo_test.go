package sandbox_test

import (
	"cmp"
	"math/bits"
	"strings"

	"assay/host/check"
)

// specimen is a guest that the sandbox must survive, and how its call has to end.
type specimen struct {
	name     string
	wasm     func() []byte
	ends     ending
	memoryMB int // of its manifest; 0: 1
	extraMB  int // what a process that opens it and calls it may take at most beyond what it took before; 0: 64
	budgetMS int // of its manifest; 0: 50
	maxFuel  int // of its manifest; 0: without a limit
}

// ending is how it ends: refused before its first call, lost in it, or answering.
type ending struct {
	refused bool
	lost    []check.FailureReason // any of these
	says    []string              // what the error tells
	score   int
}

// refused is the L of the zoo's list: the module never becomes a plugin, and the error says why.
func refused(says ...string) ending { return ending{refused: true, says: says} }

// runsOut is its T.
func runsOut() ending {
	return ending{lost: []check.FailureReason{check.Timeout, check.Exhausted}, says: []string{"ran out"}}
}

// overflows ends where calls are nested too deeply or at the budget's end, whichever the machine reaches first.
func overflows() ending { return ending{lost: []check.FailureReason{check.Trap, check.Timeout}} }

// traps is its X, and breaksRules its O.
func traps(says ...string) ending { return ending{lost: []check.FailureReason{check.Trap}, says: says} }
func breaksRules(says ...string) ending {
	return ending{lost: []check.FailureReason{check.Refused}, says: says}
}
func answers(score int) ending { return ending{score: score} }

func (want ending) String() string {
	switch {
	case want.refused:
		return "is refused: " + strings.Join(want.says, " ... ")
	case len(want.lost) > 0:
		return "is lost: " + string(want.lost[0]) + ": " + strings.Join(want.says, " ... ")
	}
	return "answers"
}

// zoo lists every specimen. A name begins with its number in the list that it comes from; one of one number is one
// kind.
func zoo() []specimen {
	return append(append(endlessGuests(), brokenGuests()...), append(answeringGuests(), refusedGuests()...)...)
}

func endlessGuests() []specimen {
	return []specimen{
		{name: "Z01/loopForever", wasm: loopForever, ends: runsOut()},
		{name: "Z01/loopByTable", wasm: loopByTable, ends: runsOut()},
		{name: "Z01/loopThroughHost", wasm: loopThroughHost, ends: runsOut()},
		{name: "Z01/loopToTheCeiling", wasm: loopForever, maxFuel: 1_000_000,
			ends: ending{lost: []check.FailureReason{check.Exhausted},
				says: []string{"the fuel ran out"}}, budgetMS: 100},
		{name: "Z02/callTree", wasm: callTree, ends: runsOut()},
		{name: "Z02/callTreeByTable", wasm: callTreeByTable, ends: runsOut()},
		{name: "Z03/naiveFib", wasm: naiveFib, ends: runsOut()},
		{name: "Z05/straightLine", wasm: straightLine, ends: runsOut(), extraMB: 768},
		{name: "Z06/loopAtDepth", wasm: loopAtDepth, ends: runsOut()},
		{name: "Z06/climbForever", wasm: climbForever, ends: runsOut()},
		{name: "Z08/growForever", wasm: growForever, ends: runsOut(), memoryMB: 64, extraMB: 192},
		{name: "Z11/fillForever", wasm: fillForever, ends: runsOut(), memoryMB: 64, extraMB: 192},
		{name: "Z11/copyForever", wasm: copyForever, ends: runsOut(), memoryMB: 64, extraMB: 192},
		{name: "Z11/initForever", wasm: initForever, ends: runsOut(), memoryMB: 64, extraMB: 192},
		{name: "Z11/touchForever", wasm: touchForever, ends: runsOut(), memoryMB: 64, extraMB: 192},
		{name: "Z11/fillTableForever", wasm: fillTableForever, ends: runsOut()},
		{name: "Z15/loopOnce", wasm: once(endless()), ends: runsOut()},
		{name: "Z18/yieldForever", wasm: yieldForever, ends: runsOut()},
		{name: "Z18/randomForever", wasm: randomForever, ends: runsOut(), memoryMB: 64, extraMB: 192},
		{name: "Z18/printVectors", wasm: printVectors, ends: runsOut(), memoryMB: 64, extraMB: 192},
		{name: "Z18/pollVectors", wasm: pollVectors, ends: runsOut(), memoryMB: 64, extraMB: 192},
		{name: "Z35/logForever", wasm: logForever, ends: runsOut()},
	}
}

func brokenGuests() []specimen {
	outside := traps("outside its memory")
	return []specimen{
		{name: "Z06/recurseForever", wasm: recurseForever, ends: overflows(), budgetMS: 100},
		{name: "Z06/recurseInTurns", wasm: recurseInTurns, ends: overflows(), budgetMS: 100},
		{name: "Z06/trapAtDepth", wasm: trapAtDepth, ends: traps("unreachable"), budgetMS: 100},
		{name: "Z06/recurseByTable", wasm: recurseByTable, ends: overflows(), budgetMS: 100},
		{name: "Z06/recurseWithResults", wasm: recurseWithResults, ends: overflows(), budgetMS: 100},
		{name: "Z06/recurseWithColdFrame", wasm: recurseWithColdFrame, ends: overflows(), budgetMS: 100},
		{name: "Z06/recurseWithLocals", wasm: recurseWithLocals, ends: overflows(), budgetMS: 100},
		{name: "Z06/recurseTooDeepAndReturn", wasm: recurseTooDeepAndReturn, ends: overflows(), budgetMS: 100},
		{name: "Z15/unreachable", wasm: trapping(unreachable), ends: traps("unreachable")},
		{name: "Z15/divideByZero", wasm: trapping(num(1), num(0), op(0x6d), drop), ends: traps("divide by zero")},
		{name: "Z15/remainderOfZero", wasm: trapping(num(1), num(0), op(0x6f), drop), ends: traps("divide by zero")},
		{name: "Z15/divideOverflow", wasm: trapping(num(-1<<31), num(-1), op(0x6d), drop), ends: traps("overflow")},
		{name: "Z15/truncateNaN", wasm: trapping(op(0x43, 0, 0, 0xc0, 0x7f, 0xa8), drop),
			ends: traps("invalid conversion")},
		{name: "Z15/loadOutside", wasm: trapping(num(65533), load, drop), ends: traps("out of bounds memory")},
		{name: "Z15/storeOutside", wasm: trapping(num(65533), num(1), store), ends: traps("out of bounds memory")},
		{name: "Z15/loadAtTheEnd", wasm: trapping(num(-1), op(0x28, 0), countless, drop),
			ends: traps("out of bounds memory")},
		{name: "Z15/fillOutside", wasm: trapping(num(1), num(0), num(65536), op(0xfc, 11, 0)),
			ends: traps("out of bounds memory")},
		{name: "Z15/wrongTypeByTable", wasm: tabled(viaTable(0)), ends: traps("indirect call type mismatch")},
		{name: "Z15/nullByTable", wasm: tabled(viaTable(1)), ends: traps("invalid table access")},
		{name: "Z15/outsideTheTable", wasm: tabled(viaTable(3)), ends: traps("invalid table access")},
		{name: "Z15/signalOutside", wasm: trapping(num(1), num(-1), num(4), num(0), num(1), call(signal)),
			ends: outside},
		{name: "Z15/textOutside", wasm: trapping(num(1), num(0), num(1), num(65536), num(-1), call(signal)),
			ends: outside},
		{name: "Z15/threatOutside", wasm: trapping(num(65535), num(2), call(threat)), ends: outside},
		{name: "Z15/logOutside", wasm: trapping(num(0), num(1), num(65536), call(log)), ends: outside},
		{name: "Z15/nameOutside", wasm: trapping(num(-1), num(-1), num(0), num(0), call(fact), drop), ends: outside},
		{name: "Z15/bufferOutside", wasm: func() []byte {
			l := newLayer()
			return l.scoring(l.text("entity.value"), num(65530), num(-1), call(fact), drop, scored).encode()
		}, ends: outside},
		{name: "Z15/trapOnce", wasm: once(unreachable), ends: traps("unreachable")},
		{name: "Z15/exitInPeace", wasm: exiting(0), ends: traps("exited with code 0")},
		{name: "Z15/exitInAnger", wasm: exiting(1), ends: traps("exited with code 1")},
		{name: "Z33/returnMinusOne", wasm: returning(-1), ends: traps("returned -1")},
		{name: "Z33/return101", wasm: returning(101), ends: traps("returned 101")},
		{name: "Z33/returnHuge", wasm: returning(-1 << 31), ends: traps("returned -2147483648")},
	}
}

func answeringGuests() []specimen {
	control := func(text string) specimen {
		return specimen{wasm: saying(1, said, text), ends: breaksRules("control character")}
	}
	named := func(name string, s specimen) specimen {
		s.name = name
		return s
	}
	return []specimen{
		{name: "healthy", wasm: healthy().encode, ends: answers(len(asked))},
		{name: "Z06/recurseAndReturn", wasm: recurseAndReturn, ends: answers(3), budgetMS: 100},
		{name: "Z09/growAtOnce", wasm: growAtOnce, ends: answers(9)},
		{name: "Z13/growTableAtOnce", wasm: growTableAtOnce, ends: answers(9)},
		{name: "Z18/sleepAnHour", wasm: sleepAnHour, ends: answers(5)},
		{name: "Z18/overflowSubscriptions", wasm: overflowSubscriptions(0x05555556), ends: answers(6)},
		{name: "Z18/vanishingSubscriptions", wasm: overflowSubscriptions(1 << 28), ends: answers(6)},
		{name: "Z18/randomAtOnce", wasm: invalid(randomGet, num(0), num(64<<10+1)), ends: answers(6), memoryMB: 64,
			extraMB: 192},
		{name: "Z18/printAtOnce", wasm: invalid(fdWrite, num(1), num(64), num(1025), num(0)), ends: answers(6),
			memoryMB: 64, extraMB: 192},
		{name: "Z18/pollAtOnce", wasm: invalid(pollOneoff, num(64), num(64), num(1025), num(0)), ends: answers(6),
			memoryMB: 64, extraMB: 192},
		{name: "Z27/hostileDebugInfo", wasm: hostileDebugInfo, ends: answers(len(asked))},
		{name: "Z27/hostileNames", wasm: hostileNames, ends: answers(len(asked))},
		{name: "Z30/simdHeavy", wasm: simdHeavy, ends: answers(8)},
		{name: "Z33/minusHundred", wasm: saying(-100, said, "calming"), ends: answers(0)},
		{name: "Z33/101Points", wasm: saying(101, said, "alarming"), ends: breaksRules("101 points")},
		{name: "Z33/minus2To31Points", wasm: saying(-1<<31, said, "alarming"), ends: breaksRules("-2147483648 points")},
		{name: "Z33/undeclaredCode", wasm: saying(1, "zoo:guest:unheard", "of"),
			ends: breaksRules(`no signal code "zoo:guest:unheard"`)},
		{name: "Z33/undeclaredThreat", wasm: threatening("phishing"), ends: breaksRules(`no threat "phishing"`)},
		{name: "Z33/verdictForAThreat", wasm: threatening("allow\x00\xff"), ends: breaksRules("no threat")},
		{name: "Z33/65Signals", wasm: sayingOften(65), ends: breaksRules("more than 64 signals")},
		{name: "Z33/millionSignals", wasm: sayingOften(1_000_000), ends: ending{
			lost: []check.FailureReason{check.Refused, check.Timeout, check.Exhausted}}},
		{name: "Z33/tenMegabytesOfText", wasm: sayingBytes(10 << 20), ends: breaksRules("longer than 240"),
			memoryMB: 64, extraMB: 192},
		{name: "Z33/emptyText", wasm: saying(1, said, ""), ends: breaksRules("empty")},
		{name: "Z33/notUTF8", wasm: saying(1, said, "a\xff"), ends: breaksRules("not UTF-8")},
		named("Z33/ansiEscape", control("\x1b[2Jgone")),
		named("Z33/nul", control("nul\x00")),
		named("Z33/rightToLeft", control("evil\u202etxt.exe")),
		{name: "Z33/script", wasm: saying(2, said, "</script><script>alert(1)"), ends: answers(2)},
		{name: "Z33/depthBomb", wasm: saying(2, said, nested), ends: answers(2)},
		{name: "Z35/logMegabytes", wasm: logging("", 10<<20), ends: traps("unreachable"), memoryMB: 64, extraMB: 192,
			budgetMS: 100},
		{name: "Z35/logFormats", wasm: logging("%s%n%!d(MISSING)", 0), ends: traps("unreachable")},
		{name: "Z38/flipACoin", wasm: flipACoin, ends: answers(coin)},
		{name: "Z39/slowButLegal", wasm: slowButLegal(1_000_000), ends: answers(7)},
	}
}

// asked is the entity that the zoo's calls are about.
const asked = "zoo.example"

// coin is what flipACoin shows for ever: the bits set in the times of the two standing clocks, without any randomness.
var coin = bits.OnesCount32(uint32(946684800*1_000_000_000&0xffffffff) ^ 1)

func refusedGuests() []specimen {
	return append(malformedGuests(), []specimen{
		{name: "Z07/tailCallItself", wasm: trapping(op(0x12), unsigned(score)),
			ends: refused("code section, offset", "tail calls")},
		{name: "Z10/hugeMemory", wasm: with(func(l *layer) { l.memory = cat(op(0), unsigned(65536)) }),
			ends: refused("memory section, offset", "65536 pages")},
		{name: "Z13/growTableForever", wasm: with(func(l *layer) {
			l.tables = [][]byte{cat([]byte(funcref), op(0, 1))}
			l.functions[0].body = cat(op(0xd0, 0x70), num(0x7fffffff), op(0xfc, 15, 0))
		}), ends: refused("code section, offset", "no maximum")},
		{name: "Z14/sixtyFourTables", wasm: sixtyFourTables, ends: refused("table section, offset", "64 tables")},
		{name: "Z14/hugeTable", wasm: with(func(l *layer) {
			l.tables = [][]byte{cat([]byte(funcref), op(0),
				unsigned(1<<27))}
		}),
			ends: refused("table section, offset", "134217728 entries")},
		{name: "Z15/constantsOutside", wasm: with(func(l *layer) { l.constants = make([]byte, 64<<10) }),
			ends: refused("starting an instance", "out of bounds memory")},
		{name: "Z17/loopInStart", wasm: loopInStart, ends: refused("starting an instance", "ran out")},
		{name: "Z17/loopInInitialize", wasm: loopInInitialize, ends: refused("starting an instance", "ran out")},
		{name: "Z17/fibInInitialize", wasm: fibInInitialize, ends: refused("starting an instance", "ran out")},
		{name: "Z17/trapInInitialize", wasm: made(initialising(unreachable)), ends: refused("starting an instance",
			"unreachable")},
		{name: "Z17/recurseInInitialize", wasm: made(initialising(call(score + 1))),
			ends: refused("starting an instance")},
		{name: "Z17/recurseInStart", wasm: recurseInStart, ends: refused("starting an instance")},
		{name: "Z18/readStdin", wasm: importsOf("wasi_snapshot_preview1", "fd_read", i32+i32+i32+i32, i32),
			ends: refused(`"fd_read"`, "not offered")},
		{name: "Z19/importSecret", wasm: importsOf("env", "secret", "", ""), ends: refused(`"secret" of module "env"`,
			"not offered")},
		{name: "Z19/importSocket", wasm: importsOf("wasi_snapshot_preview1", "sock_accept", i32+i32+i32, i32),
			ends: refused(`"sock_accept"`, "not offered")},
		{name: "Z19/importFile", wasm: importsOf("wasi_snapshot_preview1", "path_open",
			i32+i32+i32+i32+i32+i64+i64+i32+i32, i32),
			ends: refused(`"path_open"`, "not offered")},
		{name: "Z19/importUnknownModule", wasm: importsOf("assay2", "log", i32+i32+i32, ""),
			ends: refused(`module "assay2"`, "not offered")},
		{name: "Z19/importWrongType", wasm: importsOf("assay", "log", i32+i32+i64, ""),
			ends: refused("assay.log", "(i32, i32, i64)")},
		{name: "Z19/importTheMeter", wasm: importsOf("assay_meter", "refill", "", ""),
			ends: refused("import section, offset", "reserved")},
		{name: "Z19/exportTheFuel", wasm: with(func(l *layer) {
			l.globals = [][]byte{cat([]byte(i64), op(1), long(1<<40), op(0x0b))}
			l.exports = append(l.exports, exporting("assay.fuel", 3, 0))
		}), ends: refused("export section, offset", "reserved")},
		{name: "Z19/tenThousandImports", wasm: tenThousandImports, ends: refused("import section, offset",
			"10000 imports")},
		{name: "Z29/noScore", wasm: renamed("assay_v1_score", "score"), ends: refused(`the function "assay_v1_score"`)},
		{name: "Z29/noMemory", wasm: with(func(l *layer) { l.exports = nil }),
			ends: refused(`a memory named "memory"`)},
		{name: "Z29/memoryIsAGlobal", wasm: with(func(l *layer) {
			l.globals = [][]byte{cat([]byte(i32), op(0), num(0), op(0x0b))}
			l.exports = [][]byte{exporting("memory", 3, 0)}
		}), ends: refused(`a memory named "memory"`)},
		{name: "Z29/scoreIsAMemory", wasm: with(func(l *layer) {
			l.functions[0].name = ""
			l.exports = append(l.exports, exporting("assay_v1_score", 2, 0))
		}), ends: refused(`the function "assay_v1_score"`)},
		{name: "Z29/scoreTakesAPointer", wasm: typed(i32, i32, num(0)),
			ends: refused(`"assay_v1_score" as (i32) -> (i32)`)},
		{name: "Z33/floatScore", wasm: typed("", f64, op(0x44, 0, 0, 0, 0, 0, 0, 0xf0, 0x7f)),
			ends: refused(`"assay_v1_score" as () -> (f64)`)},
		{name: "Z30/sharedMemory", wasm: with(func(l *layer) { l.memory = op(3, 1, 1) }),
			ends: refused("memory section, offset", "threads")},
		{name: "Z30/waitForever", wasm: trapping(num(0), num(0), long(-1), op(0xfe, 1, 2, 0), drop),
			ends: refused("code section, offset", "threads")},
		{name: "Z30/throwForever", wasm: trapping(endless(op(0x1f, 0x40, 1, 2, 0, 0x08, 0, 0x0b))),
			ends: refused("code section, offset", "exception")},
		{name: "Z30/throwIt", wasm: trapping(op(0x08, 0)), ends: refused("code section, offset", "exception")},
	}...)
}

func malformedGuests() []specimen {
	header := func(says string) ending { return refused("header section, offset 0", says) }
	announced := func(section string) ending { return refused(section+" section, offset", "4294967295") }
	all := []specimen{
		{name: "Z20/manyLocals", wasm: manyLocals, ends: refused("code section, offset 23", "4294967295 locals")},
		{name: "Z20/phiStorm", wasm: phiStorm, ends: refused("code section, offset", "locals, over the limit of 1000")},
		{name: "Z20/branchStorm", wasm: branchStorm, ends: refused("code section, offset", "units of work")},
		{name: "Z20/ifStorm", wasm: ifStorm, ends: refused("code section, offset", "units of work")},
		{name: "Z20/loopStorm", wasm: loopStorm, ends: refused("code section, offset", "units of work")},
		{name: "Z20/tableStorm", wasm: tableStorm, ends: refused("code section, offset", "units of work")},
		{name: "Z22/millionParameters", wasm: millionParameters,
			ends: refused("type section, offset", "1000000 parameters")},
		{name: "Z22/recursiveTypes", wasm: recursiveTypes, ends: refused("type section, offset", "garbage collection")},
		{name: "Z26/empty", wasm: file(""), ends: header("empty")},
		{name: "Z26/wrongMagic", wasm: file("\x00asn\x01\x00\x00\x00"), ends: header("magic")},
		{name: "Z26/wrongVersion", wasm: file("\x00asm\x02\x00\x00\x00"), ends: refused("header section", "version")},
		{name: "Z26/component", wasm: file("\x00asm\x0d\x00\x01\x00"), ends: refused("header section", "component")},
		{name: "Z26/gzipped", wasm: gzipped, ends: header("gzip")},
		{name: "Z26/elf", wasm: file("\x7fELF\x02\x01\x01\x00"), ends: header("ELF")},
		{name: "Z26/zeros100MB", wasm: zeros100MB, ends: header("over the limit"), extraMB: 200},
		{name: "Z27/giantNames", wasm: giantNames, ends: header("over the limit"), extraMB: 500},
		{name: "Z27/sectionNotUTF8", wasm: with(func(l *layer) {
			l.customs = [][]byte{customSection("\xff\xfe",
				nil)}
		}),
			ends: refused("custom section, offset", "UTF-8")},
	}
	for id, name := range map[byte]string{typeSection: "type", importSection: "import", functionSection: "function",
		tableSection:  "table",
		memorySection: "memory", globalSection: "global", exportSection: "export", elementSection: "element",
		codeSection: "code", dataSection: "data"} {
		all = append(all, specimen{name: "Z21/countless/" + name, wasm: announcing(id), ends: announced(name)})
	}
	return all
}

func (s specimen) budget() int { return cmp.Or(s.budgetMS, 50) }
func (s specimen) memory() int { return cmp.Or(s.memoryMB, 1) }
func (s specimen) extra() int  { return cmp.Or(s.extraMB, 64) }
