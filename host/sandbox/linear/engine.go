package linear

import (
	"errors"
	"reflect"

	"github.com/tetratelabs/wazero/api"
)

// engineView is wazero's own record of a memory: the slice that host functions read, and the address and length that
// compiled code reads. wazero has an API to grow a memory but none to shrink it.
type engineView struct {
	buffer *[]byte
	engine interface {
		// MemoryGrown makes compiled code read the address and the length of buffer again.
		MemoryGrown()
	}
}

// errLayout means that this version of wazero keeps its record elsewhere.
var errLayout = errors.New("finding a guest's memory: this version of wazero has another layout")

// viewOf returns wazero's record of the memory of a module.
func viewOf(module api.Module) (v engineView, err error) {
	instance := reflect.ValueOf(module)
	if instance.Kind() != reflect.Pointer || instance.Elem().Kind() != reflect.Struct {
		return v, errLayout
	}
	memory, engine := instance.Elem().FieldByName("MemoryInstance"), instance.Elem().FieldByName("Engine")
	if !memory.IsValid() || memory.Kind() != reflect.Pointer || memory.IsNil() || !engine.IsValid() {
		return v, errLayout
	}
	buffer := memory.Elem().FieldByName("Buffer")
	if !buffer.IsValid() {
		return v, errLayout
	}
	var bufferOK, engineOK bool
	v.buffer, bufferOK = buffer.Addr().Interface().(*[]byte)
	v.engine, engineOK = engine.Interface().(interface{ MemoryGrown() })
	if !bufferOK || !engineOK {
		return v, errLayout
	}
	return v, nil
}

// resize makes the engine use a memory of the given content.
func (v engineView) resize(content []byte) {
	*v.buffer = content
	v.engine.MemoryGrown()
}
