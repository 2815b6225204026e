package main

import (
	"context"
	"os"
	"runtime"

	"assay/host/sandbox"
)

type compileCmd struct{}

func (compileCmd) Run(ctx context.Context, t *terminal) error {
	return sandbox.ServeCompiler(ctx, os.Stdin, t.out)
}

// compilerCommand returns the command line of a compiler: this program, so that it compiles exactly as this process
// would.
func compilerCommand() []string {
	program := "/proc/self/exe" // still this program when its file has been replaced by a newer one
	if runtime.GOOS != "linux" {
		program, _ = os.Executable() // if that fails, so does starting the compiler
	}
	return []string{program, "compile"}
}
