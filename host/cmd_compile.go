package main

import (
	"context"
	"os"
	"runtime"

	"assay/host/rehearsal"
	"assay/host/sandbox"
)

type compileCmd struct{}

func (compileCmd) Run(ctx context.Context, t *terminal) error {
	return sandbox.ServeCompiler(ctx, os.Stdin, t.out)
}

type measureCmd struct{}

func (measureCmd) Run(ctx context.Context, t *terminal) error {
	return rehearsal.ServeMeasure(ctx, os.Stdin, t.out)
}

// compilerCommand returns the command line of a compiler: this program, so that it compiles exactly as this process
// would.
func compilerCommand() []string { return ownCommand("compile") }

// measureCommand returns the command line of a process that measures a module.
func measureCommand() []string { return ownCommand("measure") }

func ownCommand(name string) []string {
	program := "/proc/self/exe" // still this program when its file has been replaced by a newer one
	if runtime.GOOS != "linux" {
		program, _ = os.Executable() // if that fails, so does starting the process
	}
	return []string{program, name}
}
