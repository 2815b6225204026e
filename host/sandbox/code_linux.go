package sandbox

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"github.com/tetratelabs/wazero"
	"golang.org/x/sys/unix"
)

// mapCode replaces the memory that holds a module's native code by a mapping of a file with the same content. A plugin
// runs only a small part of its code. The kernel keeps that part in memory, and reads the rest again when needed. No
// other process can open the file, because it has no name (open(2), O_TMPFILE). The code must not be running.
//
// After an error the code is unchanged and the plugin stays usable.
func mapCode(compiled wazero.CompiledModule, dir string) error {
	_, code := engineCode(compiled)
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

// forgetCode unmaps the pages of a module's mapped code. Pages that the plugin uses again are mapped on demand; pages
// that only its initialisation used stay unmapped.
func forgetCode(compiled wazero.CompiledModule) error {
	_, code := engineCode(compiled)
	return unix.Madvise(code, unix.MADV_DONTNEED)
}
