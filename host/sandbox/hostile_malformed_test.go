package sandbox

import (
	"bytes"
	"strings"
)

// Files that must not reach the engine, and guests that use more than the interface offers.

// maxCount is an encoded vector length of 2^32-1.
var maxCount = uleb(1<<32 - 1)

func file(content string) func() []byte { return func() []byte { return []byte(content) } }

// healthyExcept returns the healthy guest after a change.
func healthyExcept(change func(*guest)) func() []byte {
	return func() []byte {
		g := healthy()
		change(g)
		return g.encode()
	}
}

func zeros100MB() []byte { return make([]byte, 100<<20) }

// emptyType is a type section with () -> ().
var emptyType = section(typeSection, vector([][]byte{functionType("", "")}))

// The storms are small guests of blocks and branches that take the engine's compiler seconds to minutes.

func branchStorm() []byte {
	return storm(op(0x02, 0x40), concat(i32Const(0), op(0x0d, 0)), 40_000, op(0x0b))
}

func ifStorm() []byte {
	return storm(nil, concat(i32Const(0), ifTrue(i32Const(1), localSet(0))), 40_000, nil)
}

func loopStorm() []byte {
	return storm(nil, concat(op(0x03, 0x40), i32Const(0), op(0x0d, 0, 0x0b)), 10_000, nil)
}

func tableStorm() []byte {
	targets := make([]byte, 1_000_001)
	return storm(op(0x02, 0x40), nil, 0, concat(i32Const(0), op(0x0e), uleb(1_000_000), targets, op(0x0b)))
}

func storm(before, repeated []byte, times int, after []byte) []byte {
	return scoring(before, bytes.Repeat(repeated, times), after, returnScored).encode()
}

// phiStorm has a loop that carries 16,000 locals: valid and small, but expensive to compile.
func phiStorm() []byte {
	const locals = 16_000
	var shift []byte
	for i := range uint32(locals - 1) {
		shift = append(shift, concat(localGet(i+1), localSet(i))...)
	}
	return scoring(callFunc(fnScore+1), returnScored).with(guestFunction{locals: strings.Repeat(tI32, locals),
		body: endless(i32Const(bufferAt), opLoad, ifTrue(shift))}).encode()
}

// manyLocals has a function of 2^32-1 locals, in about thirty bytes.
func manyLocals() []byte {
	body := sized(concat(uleb(1), maxCount, []byte(tI32), op(0x0b)))
	return moduleOf(emptyType, section(functionSection, vector([][]byte{uleb(0)})),
		section(codeSection, vector([][]byte{body})))
}

// announcedImports has an import section that announces 2^32-1 items.
func announcedImports() []byte { return moduleOf(section(importSection, maxCount)) }

// importing imports a function in place of log.
func importing(module, name, params, results string) func() []byte {
	return healthyExcept(func(g *guest) { g.imports[fnLog] = importOf(module, name, params, results) })
}

func sixtyFourTables() []byte {
	table := concat([]byte(tFuncref), op(0), uleb(1<<27))
	return moduleOf(section(tableSection, concat(uleb(64), bytes.Repeat(table, 64))))
}

// customSections adds the named sections, all with the same content.
func customSections(content []byte, names ...string) func() []byte {
	return healthyExcept(func(g *guest) {
		for _, name := range names {
			g.customs = append(g.customs, customSection(name, content))
		}
	})
}

// giantNames has a name section of 50 MiB.
func giantNames() []byte { return customSections(make([]byte, 50<<20), "name")() }

// invalidDebugInfo has DWARF sections without a valid byte.
func invalidDebugInfo() []byte {
	return customSections(bytes.Repeat([]byte{0xff}, 64<<10),
		".debug_info", ".debug_abbrev", ".debug_line", ".debug_str", ".debug_ranges")()
}

// invalidNames has three name sections. Their module, function and local names are not UTF-8 and end before their
// announced length.
func invalidNames() []byte {
	names := concat(section(0, sized([]byte{0xff, 0xfe})), section(1, concat(maxCount, uleb(0), maxCount)),
		section(2, maxCount))
	return customSections(names, "name", "name", "name")()
}

func loopInStart() []byte {
	g := healthy().with(guestFunction{body: endless()})
	g.start = fnScore + 1
	return g.encode()
}

func fibInInitialise() []byte {
	return healthy().initialising(i64Const(90), callFunc(fnScore+2), opDrop).with(fib(fnScore + 2)).encode()
}

// scoreFunction replaces the type and code of the score function.
func scoreFunction(params, results string, code []byte) func() []byte {
	return healthyExcept(func(g *guest) {
		g.functions[0] = guestFunction{export: exportScore, params: params, results: results, body: code}
	})
}
