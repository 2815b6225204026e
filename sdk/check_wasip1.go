//go:build wasip1

package sdk

import "unsafe"

//go:wasmimport assay fact
func hostFact(name unsafe.Pointer, nameLen uint32, buf unsafe.Pointer, bufCap uint32) int32

//go:wasmimport assay signal
func hostSignal(points int32, code unsafe.Pointer, codeLen uint32, text unsafe.Pointer, textLen uint32)

//go:wasmimport assay threat
func hostThreat(name unsafe.Pointer, nameLen uint32)

//go:wasmimport assay log
func hostLog(level int32, text unsafe.Pointer, textLen uint32)

// Register sets the layer that assay_v1_score runs. Call it once, from init; main stays empty.
func Register(layer Layer) { registered = layer }

// registered is the module's only layer. A guest has one thread, so this needs no lock.
var registered Layer

//go:wasmexport assay_v1_score
func score() int32 { return int32(registered(&Check{})) }

// Check is one call of a layer: the facts to read and the answer to build.
type Check struct{ _ [0]func() }

// buffer receives facts and grows to the longest one.
var buffer = make([]byte, 1024)

func ptr(s string) unsafe.Pointer { return unsafe.Pointer(unsafe.StringData(s)) }

// Fact returns the named fact and whether it is known. Facts that the manifest does not declare are never known.
func (c *Check) Fact(name string) (value string, known bool) {
	for {
		n := hostFact(ptr(name), uint32(len(name)), unsafe.Pointer(unsafe.SliceData(buffer)), uint32(len(buffer)))
		switch {
		case n < 0:
			return "", false
		case int(n) <= len(buffer):
			return string(buffer[:n]), true
		}
		buffer = make([]byte, n)
	}
}

// Signal adds one reason: points from -100 (reassuring) to 100 (alarming), a code that the manifest declares, and a
// sentence that names the evidence. The layer's score is the sum of its points, clamped to 0..100.
func (c *Check) Signal(points int, code, text string) {
	points = min(max(points, -MaxPoints-1), MaxPoints+1) // truncating to int32 could otherwise make it valid
	hostSignal(int32(points), ptr(code), uint32(len(code)), ptr(text), uint32(len(text)))
}

// Threat names the category of fraud that this layer found. The last call counts.
func (c *Check) Threat(t Threat) { hostThreat(ptr(string(t)), uint32(len(t))) }

// Log writes a line for the layer's author, up to LogBytes a call. Customers never see it.
func (c *Check) Log(level Level, text string) { hostLog(int32(level), ptr(text), uint32(len(text))) }
