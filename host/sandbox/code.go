package sandbox

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"unsafe"

	"github.com/tetratelabs/wazero"
)

// isCodeOf reports whether a file of wazero's cache holds the native code that the engine has for a module: a table of
// the functions' offsets, the length of the code, and the code.
func isCodeOf(compiled wazero.CompiledModule, file []byte) bool {
	offsets, code := engineCode(compiled)
	var table []byte
	for _, offset := range append(offsets, len(code)) {
		table = binary.LittleEndian.AppendUint64(table, uint64(offset))
	}
	_, rest, found := bytes.Cut(file, table)
	return found && len(code) > 0 && bytes.HasPrefix(rest, code)
}

// engineCode returns the offsets of a module's functions and its native code, which is nil if the engine does not keep
// them where expected. The engine exports a way to write code to a file, but no way to read it.
func engineCode(compiled wazero.CompiledModule) (offsets []int, code []byte) {
	defer func() {
		if recover() != nil { // reflect panics when a field is missing or of another kind
			offsets, code = nil, nil
		}
	}()
	engine := reflect.ValueOf(compiled).Elem().FieldByName("compiledEngine").Elem().Elem()
	for modules := engine.FieldByName("compiledModules").MapRange(); modules.Next(); {
		m := modules.Value().Elem()
		if m.FieldByName("module").Elem().FieldByName("IsHostModule").Bool() {
			continue
		}
		for _, offset := range m.FieldByName("functionOffsets").Seq2() {
			offsets = append(offsets, int(offset.Int()))
		}
		executable := m.FieldByName("executable")
		code = unsafe.Slice((*byte)(executable.UnsafePointer()), executable.Len())
	}
	return offsets, code
}
