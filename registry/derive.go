package registry

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"assay/registry/fault"
)

// Numbers of sections (WebAssembly 2.0, section 5.5.2).
const (
	customID    = 0
	dataID      = 11
	dataCountID = 12
)

// Derive returns m with another manifest and other data: each element of before, which the initial memory must hold
// exactly once, is replaced by the equally long element of after at the same index. The code stays the same.
func (m Module) Derive(manifest []byte, before, after [][]byte) (derived []byte, err error) {
	defer fault.WrapAll(&err, "deriving from %s", m.Ref())
	out := bytes.Clone(wasmHeader)
	var cases []byte
	written := false
	err = eachSection(m.Wasm, func(id byte, _ int, name string, content []byte) (err error) {
		switch {
		case id == customID && name == ManifestSection:
			return nil
		case id == customID && name == CasesSection:
			cases = content
			return nil
		case id == customID:
			out, err = appendSection(out, name, content)
			return err
		case id == dataID:
			written = true
			if content, err = overwrite(content, before, after); err != nil {
				return err
			}
		case id == dataCountID:
			count, _ := binary.Uvarint(content)
			content = binary.AppendUvarint(nil, count+uint64(len(before)))
		}
		out = binary.AppendUvarint(append(out, id), uint64(len(content)))
		out = append(out, content...)
		return nil
	})
	if err == nil && !written {
		err = errData
	}
	if err != nil {
		return nil, err
	}
	return Pack(out, manifest, cases)
}

// overwrite adds segments to a data section, which write the bytes of after over those of before. Segments may overlap,
// and are written in order (WebAssembly 2.0, sections 5.5.14 and 4.5.4).
func overwrite(section []byte, before, after [][]byte) ([]byte, error) {
	memory, err := initialMemory(section)
	if err != nil {
		return nil, err
	}
	count, n := binary.Uvarint(section)
	out := binary.AppendUvarint(nil, count+uint64(len(before)))
	out = append(out, section[n:]...)
	for i, want := range before {
		at := bytes.Index(memory, want)
		switch {
		case at < 0 || bytes.Contains(memory[at+1:], want):
			return nil, fmt.Errorf("its memory does not hold part %d of the data exactly once", i)
		case len(after[i]) != len(want):
			return nil, fmt.Errorf("part %d of the data has %d bytes, want %d", i, len(after[i]), len(want))
		}
		out = appendAddress(append(out, activeSegment...), uint64(at))
		out = binary.AppendUvarint(append(out, endOfExpression), uint64(len(want)))
		out = append(out, after[i]...)
	}
	return out, nil
}

// activeSegment begins a segment of memory 0: its kind, and the instruction i32.const.
var activeSegment = []byte{0, 0x41}

const endOfExpression = 0x0b

// appendAddress appends a signed LEB128 number. A positive number is an unsigned one with room for the sign.
func appendAddress(out []byte, address uint64) []byte {
	out = binary.AppendUvarint(out, address)
	if last := len(out) - 1; out[last]&0x40 != 0 {
		out[last] |= 0x80
		out = append(out, 0)
	}
	return out
}

var errData = errors.New("its data is not as Go's linker writes it")

// initialMemory returns the memory that the segments of a data section write.
func initialMemory(section []byte) (memory []byte, err error) {
	number := func() (value uint64) {
		value, n := binary.Uvarint(section)
		if n <= 0 {
			err = errData
			return 0
		}
		section = section[n:]
		return value
	}
	for range number() {
		if !bytes.HasPrefix(section, activeSegment) {
			return nil, errData
		}
		section = section[len(activeSegment):]
		at := number()
		if len(section) == 0 || section[0] != endOfExpression || at > maxMemory {
			return nil, errData
		}
		section = section[1:]
		length := number()
		if err != nil || length > uint64(len(section)) {
			return nil, errData
		}
		if missing := int(at+length) - len(memory); missing > 0 {
			memory = append(memory, make([]byte, missing)...)
		}
		copy(memory[at:], section[:length])
		section = section[length:]
	}
	return memory, err
}

// maxMemory bounds the initial memory of a module, because its file may contain any address.
const maxMemory = 64 << 20
