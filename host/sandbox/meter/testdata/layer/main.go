// Command layer is a guest for the tests of package meter, with small and large functions that Go compiles for wasip1.
package main

import (
	"fmt"
	"slices"
	"strings"
	"unsafe"
)

//go:wasmimport assay fact
func hostFact(name unsafe.Pointer, nameLen uint32, buf unsafe.Pointer, bufCap uint32) int32

//go:wasmimport assay signal
func hostSignal(points int32, code unsafe.Pointer, codeLen uint32, text unsafe.Pointer, textLen uint32)

var buffer [64]byte

func main() {}

// loop hashes the numbers below n.
//
//go:wasmexport loop
func loop(n int32) int32 {
	h := uint32(2166136261)
	for i := range uint32(n) {
		h ^= i
		h *= 16777619
	}
	return int32(h)
}

// score does what a small layer does: it reads a fact, searches it and emits signals.
//
//go:wasmexport score
func score(n int32) int32 {
	name := "domain.name"
	got := hostFact(unsafe.Pointer(unsafe.StringData(name)), uint32(len(name)), unsafe.Pointer(&buffer),
		uint32(len(buffer)))
	value := string(buffer[:got])
	total := n
	for _, word := range []string{"login", "secure", "paypal", "verify", "account"} {
		if strings.Contains(value, word) {
			total += int32(len(word))
			code, text := "domain:word:"+word, "holds a word that phishing pages like"
			hostSignal(10, unsafe.Pointer(unsafe.StringData(code)), uint32(len(code)),
				unsafe.Pointer(unsafe.StringData(text)), uint32(len(text)))
		}
	}
	return total
}

// work does what a large layer does: it allocates, formats, hashes and sorts.
//
//go:wasmexport work
func work(n int32) int32 {
	seen := map[string]int{}
	for i := range int(n) {
		seen[fmt.Sprintf("%d:%x:%.2f", i%17, i*i, float64(i)/3)]++
	}
	keys := make([]string, 0, len(seen))
	for key := range seen {
		keys = append(keys, strings.ToUpper(key))
	}
	slices.Sort(keys)
	sum := int32(0)
	for i, key := range keys {
		sum = sum*31 + int32(len(key)) + int32(strings.Count(key, "A")*i)
	}
	return sum + distance("paypal-secure-login", "paypa1-secvre-1ogin")
}

// distance returns the Levenshtein distance, with tight nested loops over slices.
func distance(a, b string) int32 {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := last
			if a[i] != b[j] {
				cost++
			}
			last = row[j+1]
			row[j+1] = min(row[j]+1, last+1, cost)
		}
	}
	return int32(row[len(b)])
}
