package installation

import (
	"os"
	"runtime"
)

// CompilerCommand returns the command line of a compiler: this program, so that it compiles exactly as this process
// would.
func CompilerCommand() []string { return ownCommand("compile") }

// MeasureCommand returns the command line of a process that measures a module.
func MeasureCommand() []string { return ownCommand("measure") }

func ownCommand(name string) []string {
	program := "/proc/self/exe" // still this program when its file has been replaced by a newer one
	if runtime.GOOS != "linux" {
		program, _ = os.Executable() // if that fails, so does starting the process
	}
	return []string{program, name}
}
