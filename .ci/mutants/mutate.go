package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// Kinds of mutants.
const (
	kindLock     = "removed lock"
	kindLiteral  = "changed number"
	kindBoundary = "moved boundary"
	kindEqual    = "swapped comparison"
	kindError    = "dropped error"
	kindCheck    = "skipped check"
	kindNegated  = "negated condition"
	kindCall     = "removed call"
)

// Mutant is a change to a line of a file. Removing a lock also changes the lines that unlock it.
type Mutant struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Kind   string `json:"kind"`
	Before string `json:"before"` // the first text that is replaced
	After  string `json:"after"`
	edits  []edit
}

// edit replaces source[from:to].
type edit struct {
	from, to int
	text     string
}

// apply returns the source with a mutant's edits. Lines keep their numbers.
func apply(source []byte, edits []edit) []byte {
	edits = slices.SortedFunc(slices.Values(edits), func(a, b edit) int { return cmp.Compare(a.from, b.from) })
	var out []byte
	at := 0
	for _, e := range edits {
		out = append(out, source[at:e.from]...)
		out = append(out, e.text...)
		at = e.to
	}
	return append(out, source[at:]...)
}

// finder collects the mutants of a file.
type finder struct {
	name    string
	source  []byte
	set     *token.FileSet
	mutants []Mutant
	lines   int // in the bodies of functions
}

// find returns the possible mutants of a file, in a fixed order, and how many lines its functions have. Generated files
// and tables outside functions have none.
func find(name string, source []byte) ([]Mutant, int, error) {
	f := &finder{name: name, source: source, set: token.NewFileSet()}
	file, err := parser.ParseFile(f.set, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, 0, fmt.Errorf("parsing %s: %w", name, err)
	}
	if ast.IsGenerated(file) {
		return nil, 0, nil
	}
	for _, d := range file.Decls {
		if function, ok := d.(*ast.FuncDecl); ok && function.Body != nil {
			f.lines += f.line(function.Body.End()) - f.line(function.Body.Pos()) + 1
			f.locks(function.Body)
		}
		ast.Inspect(d, func(n ast.Node) bool { return f.node(n, d) })
	}
	return f.mutants, f.lines, nil
}

// node adds the mutants of one node, and reports whether to look inside.
func (f *finder) node(n ast.Node, within ast.Decl) bool {
	switch n := n.(type) {
	case *ast.ImportSpec:
		return false
	case *ast.CompositeLit:
		_, ok := within.(*ast.FuncDecl)
		return ok
	case *ast.BasicLit:
		f.literal(n)
	case *ast.BinaryExpr:
		f.comparison(n)
	case *ast.IfStmt:
		f.condition(n)
	case *ast.ReturnStmt:
		if len(n.Results) > 0 && isName(n.Results[len(n.Results)-1], "err") {
			f.replace(kindError, n.Results[len(n.Results)-1], "nil")
		}
	case *ast.ExprStmt:
		if call, ok := n.X.(*ast.CallExpr); ok && !isLock(call) {
			f.replace(kindCall, n, "")
		}
	}
	return true
}

func (f *finder) literal(n *ast.BasicLit) {
	if n.Kind != token.INT {
		return
	}
	value, err := strconv.ParseInt(n.Value, 0, 64)
	if err != nil {
		return // larger than an int64
	}
	f.replace(kindLiteral, n, strconv.FormatInt(value+1, 10))
	if value > 0 {
		f.replace(kindLiteral, n, strconv.FormatInt(value-1, 10))
	}
}

var (
	boundaries = map[token.Token]string{token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">"}
	equalities = map[token.Token]string{token.EQL: "!=", token.NEQ: "=="}
)

func (f *finder) comparison(n *ast.BinaryExpr) {
	operator := f.offset(n.OpPos)
	if text, ok := boundaries[n.Op]; ok {
		f.add(kindBoundary, edit{operator, operator + len(n.Op.String()), text})
	}
	if text, ok := equalities[n.Op]; ok && !isErrorCheck(n) {
		f.add(kindEqual, edit{operator, operator + len(n.Op.String()), text})
	}
}

// condition adds the mutants of an if statement. The condition's variables stay in use, so that the mutants compile.
func (f *finder) condition(n *ast.IfStmt) {
	never := "false && (" + f.text(n.Cond) + ")"
	if isErrorCheck(n.Cond) {
		f.replace(kindError, n.Cond, never)
		return
	}
	if len(n.Body.List) == 1 && n.Else == nil {
		if _, ok := n.Body.List[0].(*ast.ReturnStmt); ok {
			f.replace(kindCheck, n.Cond, never)
		}
	}
	if b, ok := n.Cond.(*ast.BinaryExpr); !ok || equalities[b.Op] == "" { // comparison swaps == and != instead
		f.replace(kindNegated, n.Cond, "!("+f.text(n.Cond)+")")
	}
}

// locks adds, for each mutex that a function locks, a mutant without the mutex's Lock and Unlock calls.
func (f *finder) locks(body *ast.BlockStmt) {
	var names []string
	calls := map[string][]edit{}
	ast.Inspect(body, func(n ast.Node) bool {
		var call ast.Expr
		switch n := n.(type) {
		case *ast.ExprStmt:
			call = n.X
		case *ast.DeferStmt:
			call = n.Call
		}
		if c, ok := call.(*ast.CallExpr); ok && isLock(c) {
			mutex := f.text(c.Fun.(*ast.SelectorExpr).X)
			if calls[mutex] == nil {
				names = append(names, mutex)
			}
			calls[mutex] = append(calls[mutex], edit{f.offset(n.Pos()), f.offset(n.End()), ""})
		}
		return true
	})
	for _, mutex := range names {
		f.add(kindLock, calls[mutex]...)
	}
}

// replace adds a mutant in which text replaces a node.
func (f *finder) replace(kind string, n ast.Node, text string) {
	text += strings.Repeat("\n", strings.Count(f.text(n), "\n")-strings.Count(text, "\n"))
	f.add(kind, edit{f.offset(n.Pos()), f.offset(n.End()), text})
}

func (f *finder) add(kind string, edits ...edit) {
	first := edits[0]
	line := 1 + strings.Count(string(f.source[:first.from]), "\n")
	start := strings.LastIndexByte(string(f.source[:first.from]), '\n') + 1
	end := first.to + strings.IndexByte(string(f.source[first.to:])+"\n", '\n')
	words := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	f.mutants = append(f.mutants, Mutant{
		File:   f.name,
		Line:   line,
		Kind:   kind,
		Before: words(string(f.source[start:end])),
		After:  words(string(f.source[start:first.from]) + first.text + string(f.source[first.to:end])),
		edits:  edits,
	})
}

func (f *finder) offset(p token.Pos) int { return f.set.Position(p).Offset }

func (f *finder) line(p token.Pos) int { return f.set.Position(p).Line }

func (f *finder) text(n ast.Node) string {
	return string(f.source[f.offset(n.Pos()):f.offset(n.End())])
}

func isName(e ast.Expr, name string) bool {
	i, ok := e.(*ast.Ident)
	return ok && i.Name == name
}

// isErrorCheck reports whether an expression is err != nil.
func isErrorCheck(e ast.Expr) bool {
	b, ok := e.(*ast.BinaryExpr)
	return ok && b.Op == token.NEQ && isName(b.X, "err") && isName(b.Y, "nil")
}

// isLock reports whether a call locks or unlocks a mutex.
func isLock(c *ast.CallExpr) bool {
	s, ok := c.Fun.(*ast.SelectorExpr)
	return ok && len(c.Args) == 0 && slices.Contains([]string{"Lock", "Unlock", "RLock", "RUnlock"}, s.Sel.Name)
}
