package sandbox

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"

	"assay/host/sandbox/meter"
)

// skeleton returns a module with the same structure as m, but with functions that trap and with fewer data segments.
// Once a module is compiled, the engine no longer needs its function bodies, but would keep them as long as the plugin
// is open. So code is loaded with the module's skeleton instead of the module. m must be valid.
func skeleton(m *meter.Module) (*meter.Module, error) {
	sections, err := sectionsOf(m.Wasm)
	if err != nil {
		return nil, err
	}
	out := bytes.Clone(m.Wasm[:8])
	// Without a data count section no instruction refers to a data segment (WebAssembly 2.0, section 3.4.10).
	mergeable := !slices.ContainsFunc(sections, func(s moduleSection) bool { return s.id == sectionDataCount })
	for _, s := range sections {
		switch {
		case s.id == sectionCustom:
			continue
		case s.id == sectionCode:
			if s.body, err = trappingCode(s.body); err != nil {
				return nil, err
			}
		case s.id == sectionData && mergeable:
			s.body = mergeData(s.body)
		}
		out = append(out, s.id)
		out = binary.AppendUvarint(out, uint64(len(s.body)))
		out = append(out, s.body...)
	}
	bones := *m
	bones.Wasm = out
	return &bones, nil
}

// The sections of a module that a skeleton treats specially (WebAssembly 2.0, section 5.5.2).
const (
	sectionCustom    = 0
	sectionCode      = 10
	sectionData      = 11
	sectionDataCount = 12
)

type moduleSection struct {
	id   byte
	body []byte
}

var errSections = errors.New("the sections of a metered module cannot be read")

func sectionsOf(wasm []byte) (all []moduleSection, err error) {
	if len(wasm) < 8 {
		return nil, errSections
	}
	for rest := wasm[8:]; len(rest) > 0; {
		size, n := binary.Uvarint(rest[1:])
		if n <= 0 || size > uint64(len(rest)-1-n) {
			return nil, errSections
		}
		all = append(all, moduleSection{rest[0], rest[1+n : 1+n+int(size)]})
		rest = rest[1+n+int(size):]
	}
	return all, nil
}

// trappingCode returns a code section with as many functions as body, each without locals, and each of which traps.
func trappingCode(body []byte) ([]byte, error) {
	count, n := binary.Uvarint(body)
	if n <= 0 || count > uint64(len(body)) {
		return nil, errSections
	}
	return append(binary.AppendUvarint(nil, count), bytes.Repeat([]byte{3, 0, 0x00, 0x0b}, int(count))...), nil
}

// dataSegment is a segment that is copied to a constant address of the memory at instantiation.
type dataSegment struct {
	at   uint64
	init []byte
}

// maxDataGap is the largest gap between two data segments that are merged. Go's linker starts a segment after every
// eight zero bytes; the engine's descriptions of two segments take more memory than the gap.
const maxDataGap = 128

// mergeData returns a data section with the same effect on an empty memory and fewer segments. It returns the section
// unchanged unless its segments have constant addresses, are in order and do not overlap.
func mergeData(body []byte) []byte {
	segments, ok := dataSegments(body)
	if !ok {
		return body
	}
	var merged []dataSegment
	for _, s := range segments {
		if len(merged) > 0 {
			last := &merged[len(merged)-1]
			end := last.at + uint64(len(last.init))
			if s.at < end {
				return body
			}
			if gap := s.at - end; gap <= maxDataGap {
				last.init = append(append(last.init, make([]byte, gap)...), s.init...)
				continue
			}
		}
		merged = append(merged, dataSegment{s.at, slices.Clone(s.init)})
	}
	out := binary.AppendUvarint(nil, uint64(len(merged)))
	for _, s := range merged {
		out = append(out, 0, 0x41)                        // active in memory 0, i32.const
		out = meter.AppendSigned(out, int64(int32(s.at))) // addresses are unsigned, constants signed
		out = append(out, 0x0b)
		out = binary.AppendUvarint(out, uint64(len(s.init)))
		out = append(out, s.init...)
	}
	return out
}

// dataSegments reads a data section. It reports false if a segment is passive or its address is not a constant.
func dataSegments(body []byte) (all []dataSegment, ok bool) {
	count, n := binary.Uvarint(body)
	if n <= 0 {
		return nil, false
	}
	rest := body[n:]
	for range count {
		if len(rest) < 4 || rest[0] != 0 || rest[1] != 0x41 {
			return nil, false
		}
		at, n := signed(rest[2:])
		rest = rest[2+max(n, 0):]
		if n <= 0 || len(rest) == 0 || rest[0] != 0x0b {
			return nil, false
		}
		size, n := binary.Uvarint(rest[1:])
		if n <= 0 || size > uint64(len(rest)-1-n) {
			return nil, false
		}
		rest = rest[1+n:]
		all = append(all, dataSegment{uint64(uint32(at)), rest[:size]})
		rest = rest[size:]
	}
	return all, len(rest) == 0
}

// signed decodes a signed LEB128 number of up to 32 bits (WebAssembly 2.0, section 5.2.2).
func signed(b []byte) (value int64, n int) {
	for i := 0; i < len(b) && i < 5; i++ {
		value |= int64(b[i]&0x7f) << (7 * i)
		if b[i]&0x80 == 0 {
			if b[i]&0x40 != 0 {
				value |= -1 << (7 * (i + 1))
			}
			return value, i + 1
		}
	}
	return 0, 0
}
