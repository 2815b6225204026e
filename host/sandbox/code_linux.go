package sandbox

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"unsafe"

	"github.com/tetratelabs/wazero"
	"golang.org/x/sys/unix"
)

// mapCode replaces the memory that holds a module's native code by a mapping of a file with the same content. A plugin
// runs a small part of its code, and the kernel keeps only that part in memory, and reads the rest again when needed.
// No other process can open the file, because it has no name (open(2), O_TMPFILE). The code must not be running.
//
// After an error the code is as before, and the plugin usable.
func mapCode(compiled wazero.CompiledModule, dir string) error {
	code := executableOf(compiled)
	if len(code) == 0 {
		return errors.New("the engine's code cannot be found")
	}
	descriptor, err := unix.Open(dir, unix.O_TMPFILE|unix.O_EXCL|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("creating a file for code: %w", err)
	}
	file := os.NewFile(uintptr(descriptor), "code")
	defer file.Close()
	if _, err := file.Write(code); err != nil {
		return fmt.Errorf("writing code: %w", err)
	}
	length := uintptr(len(code))
	mapped, err := unix.MmapPtr(descriptor, 0, nil, length, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
	if err != nil {
		return fmt.Errorf("mapping code: %w", err) // for example on a file system without executable files
	}
	if _, err := unix.MremapPtr(mapped, length, unsafe.Pointer(unsafe.SliceData(code)), length,
		unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED); err != nil {
		return errors.Join(fmt.Errorf("moving code: %w", err), unix.MunmapPtr(mapped, length))
	}
	return nil
}

// forgetCode unmaps the pages of a module's mapped code. Those that the plugin uses are mapped again when it uses them,
// and those that only its initialisation used are not.
func forgetCode(compiled wazero.CompiledModule) error {
	return unix.Madvise(executableOf(compiled), unix.MADV_DONTNEED)
}

// executableOf returns the native code of a module, or nil if the engine keeps it elsewhere than expected. The engine
// has an exported way to write code to a file, but none to map it. Its only module with code is the guest's; host
// modules are shorter than a page.
func executableOf(compiled wazero.CompiledModule) (code []byte) {
	defer func() {
		if recover() != nil { // reflect panics when a field is missing or of another kind
			code = nil
		}
	}()
	engine := reflect.ValueOf(compiled).Elem().FieldByName("compiledEngine").Elem().Elem()
	for modules := engine.FieldByName("compiledModules").MapRange(); modules.Next(); {
		executable := modules.Value().Elem().FieldByName("executable")
		if n := executable.Len(); n > len(code) {
			code = unsafe.Slice((*byte)(executable.UnsafePointer()), n)
		}
	}
	if len(code) < unix.Getpagesize() {
		return nil
	}
	return code
}
