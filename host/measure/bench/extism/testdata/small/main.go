// Command small is the layer of host/sandbox/testdata/small as a plugin for Extism. small.c in the parent folder
// describes input and output.
package main

import (
	"encoding/binary"
	"strings"
)

//go:wasmimport extism:host/env input_length
func inputLength() uint64

//go:wasmimport extism:host/env input_load_u8
func inputLoadByte(at uint64) uint32

//go:wasmimport extism:host/env input_load_u64
func inputLoad(at uint64) uint64

//go:wasmimport extism:host/env alloc
func alloc(size uint64) uint64

//go:wasmimport extism:host/env store_u8
func storeByte(at uint64, v uint32)

//go:wasmimport extism:host/env store_u64
func store(at, v uint64)

//go:wasmimport extism:host/env output_set
func outputSet(at, size uint64)

func main() {}

var words = [...]struct{ word, code, text string }{
	{"login", "bench:word:login", "The name holds the word login"},
	{"secure", "bench:word:secure", "The name holds the word secure"},
	{"verify", "bench:word:verify", "The name holds the word verify"},
	{"account", "bench:word:account", "The name holds the word account"},
	{"paypal", "bench:word:paypal", "The name holds the word paypal"},
}

var in, out = make([]byte, 1024), make([]byte, 0, 1024)

//go:wasmexport score
func score() int32 {
	size := int(inputLength())
	if size > len(in) {
		return 1
	}
	i := 0
	for ; i+8 <= size; i += 8 {
		binary.LittleEndian.PutUint64(in[i:], inputLoad(uint64(i)))
	}
	for ; i < size; i++ {
		in[i] = byte(inputLoadByte(uint64(i)))
	}
	name := string(in[:size])
	out = out[:0]
	for i := range words {
		if w := &words[i]; strings.Contains(name, w.word) {
			out = append(append(out, 10, byte(len(w.code))), w.code...)
			out = append(append(out, byte(len(w.text))), w.text...)
		}
	}
	block := alloc(uint64(len(out)))
	for i = 0; i+8 <= len(out); i += 8 {
		store(block+uint64(i), binary.LittleEndian.Uint64(out[i:]))
	}
	for ; i < len(out); i++ {
		storeByte(block+uint64(i), uint32(out[i]))
	}
	outputSet(block, uint64(len(out)))
	return 0
}
