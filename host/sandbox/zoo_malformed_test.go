package sandbox_test

import (
	"bytes"
	"strings"
)

// Files that must not come near the engine, and layers that ask for what is not theirs.

// countless is a vector's length of 2^32-1.
var countless = unsigned(1<<32 - 1)

func file(content string) func() []byte { return func() []byte { return []byte(content) } }

// sections is a file of just these sections.
func sections(all ...[]byte) func() []byte { return func() []byte { return module(all...) } }

func made(l *layer) func() []byte { return l.encode }

// with is a healthy layer after a change.
func with(change func(*layer)) func() []byte {
	return func() []byte {
		l := healthy()
		change(l)
		return l.encode()
	}
}

func zeros100MB() []byte { return make([]byte, 100<<20) }

// nothing is a type of a function that takes and gives nothing; oneFunction declares one of it.
var (
	nothing     = section(typeSection, vector([][]byte{signature("", "")}))
	oneFunction = section(functionSection, vector([][]byte{unsigned(0)}))
)

// body is a file of one function.
func body(content []byte) func() []byte {
	return sections(nothing, oneFunction, section(codeSection, vector([][]byte{sized(content)})))
}

// The storms are a few kilobytes of blocks and branches each, for which the engine's compiler takes seconds to minutes.
func branchStorm() []byte { return storm(op(0x02, 0x40), cat(num(0), op(0x0d, 0)), op(0x0b), 40_000) }
func ifStorm() []byte     { return storm(nil, cat(num(0), when(cat(num(1), setLocal(0)))), nil, 40_000) }
func loopStorm() []byte {
	return storm(nil, cat(op(0x03, 0x40), num(0), op(0x0d, 0, 0x0b)), nil, 10_000)
}
func tableStorm() []byte {
	return storm(op(0x02, 0x40), nil, cat(num(0), op(0x0e), unsigned(1_000_000), make([]byte, 1_000_001), op(0x0b)), 0)
}

func storm(before, often, after []byte, times int) []byte {
	return scoring(before, bytes.Repeat(often, times), after, scored).encode()
}

// manyLocals is a function of 2^32-1 locals, in some thirty bytes.
func manyLocals() []byte { return body(cat(unsigned(1), countless, []byte(i32), op(0x0b)))() }

// phiStorm has a loop carry 16 000 locals: valid, small, and dear to any compiler.
func phiStorm() []byte {
	const locals = 16_000
	var turn []byte
	for i := range uint32(locals - 1) {
		turn = append(turn, cat(op(0x20), unsigned(i+1), op(0x21), unsigned(i))...)
	}
	return scoring(call(score+1), scored).with(function{locals: strings.Repeat(i32, locals),
		body: endless(num(buffer), load, when(turn))}).encode()
}

// announcing is a section that announces 2^32-1 items and holds none.
func announcing(id byte) func() []byte {
	if id == functionSection || id == codeSection {
		return sections(nothing, section(id, countless))
	}
	return sections(section(id, countless))
}

func millionParameters() []byte {
	return module(section(typeSection, vector([][]byte{signature(strings.Repeat(i32, 1_000_000), "")})))
}

func recursiveTypes() []byte {
	return module(section(typeSection, vector([][]byte{cat(op(0x4e), vector([][]byte{signature("", "")}))})))
}

// importsOf imports a function beside what a layer may.
func importsOf(module, name, params, results string) func() []byte {
	return with(func(l *layer) {
		l.imports = []imported{l.imports[0], l.imports[1], l.imports[2], {module, name, params, results}}
	})
}

func tenThousandImports() []byte {
	return module(nothing, section(importSection,
		vector(slicesOf(10_000, cat(named("env"), named("secret"), op(0, 0))))))
}

func sixtyFourTables() []byte {
	return module(section(tableSection, vector(slicesOf(64, cat([]byte(funcref), op(0), unsigned(1<<27))))))
}

func slicesOf(n int, item []byte) [][]byte {
	all := make([][]byte, n)
	for i := range all {
		all[i] = item
	}
	return all
}

func giantNames() []byte {
	return with(func(l *layer) { l.customs = [][]byte{customSection("name", make([]byte, 50<<20))} })()
}

// hostileDebugInfo has DWARF sections of rubbish, for a reader of which no byte is right.
func hostileDebugInfo() []byte {
	return with(func(l *layer) {
		for _, name := range []string{".debug_info", ".debug_abbrev", ".debug_line", ".debug_str", ".debug_ranges"} {
			l.customs = append(l.customs, customSection(name, bytes.Repeat([]byte{0xff}, 64<<10)))
		}
	})()
}

// hostileNames has three name sections: of a module, functions and locals whose names are not UTF-8 and longer than
// told.
func hostileNames() []byte {
	return with(func(l *layer) {
		names := cat(section(0, sized([]byte{0xff, 0xfe})), section(1, cat(countless, unsigned(0), countless)),
			section(2, countless))
		for range 3 {
			l.customs = append(l.customs, customSection("name", names))
		}
	})()
}

func loopInStart() []byte {
	l := healthy().with(function{body: endless()})
	l.start = score + 1
	return l.encode()
}

func loopInInitialize() []byte { return initialising(endless()).encode() }

func fibInInitialize() []byte {
	return initialising(long(90), call(score+2), drop).with(fib(score + 2)).encode()
}

func renamed(from, to string) func() []byte {
	return with(func(l *layer) {
		for i := range l.functions {
			if l.functions[i].name == from {
				l.functions[i].name = to
			}
		}
	})
}

func typed(params, results string, code ...[]byte) func() []byte {
	return with(func(l *layer) {
		l.functions[0] = function{name: "assay_v1_score", params: params, results: results, locals: i32,
			body: cat(code...)}
	})
}

func gzipped() []byte { return []byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03" + magic) }
