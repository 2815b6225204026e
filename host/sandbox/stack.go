package sandbox

import (
	"errors"
	"reflect"

	"github.com/tetratelabs/wazero/api"
)

// wazero keeps the call stack of a guest in a slice that doubles from 10 KiB up to 84 MiB, where wazero reports an
// overflow. The slice never shrinks.
//
// maxStack is the maximum size of a guest's stack when it asks for fuel. One slice of fuel can use 6 MiB (meter charges
// for frames), so a stack ends at 10 MiB, or 20 MiB together with the slices that it outgrew.
const maxStack = 4 << 20

// errStackTooDeep traps a guest whose calls are nested too deeply.
var errStackTooDeep = errors.New("the guest's calls are nested too deeply")

// guestStack is the call stack of a guest function that the host calls. wazero has no API for its size, so reflection
// reads the length of wazero's own slice. That costs the guest nothing; counting frames inside the guest would cost two
// writes a call and miss their sizes.
type guestStack struct{ slice reflect.Value }

// stackOf returns the stack of f. It fails if this version of wazero keeps the stack elsewhere.
func stackOf(f api.Function) (guestStack, error) {
	if v := reflect.ValueOf(f); v.Kind() == reflect.Pointer && v.Elem().Kind() == reflect.Struct {
		if s := v.Elem().FieldByName("stack"); s.IsValid() && s.Kind() == reflect.Slice {
			return guestStack{s}, nil
		}
	}
	return guestStack{}, errors.New("finding the call stack: this version of wazero has another layout")
}

// bytes returns the stack's length. Only the goroutine that runs the function may call it.
func (s guestStack) bytes() int { return s.slice.Len() }
