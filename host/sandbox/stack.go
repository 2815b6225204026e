package sandbox

import (
	"errors"
	"reflect"

	"github.com/tetratelabs/wazero/api"
)

// The engine keeps a guest's calls on a stack of its own, a slice that doubles from 10 KiB to 84 MiB before it calls
// that an overflow, and that never shrinks.
const (
	// mostStack is how large a guest's stack may be when it asks for fuel. Another slice of fuel can use 6 MiB (meter
	// charges for frames), so the stack ends at 10 MiB, and at 20 with those that it outgrew.
	mostStack = 4 << 20
	// keptStack is what an idle instance may keep.
	keptStack = 128 << 10
)

// errDeep ends a guest whose calls are nested too deeply.
var errDeep = errors.New("its calls are nested too deeply")

// guestStack is the stack of one function that the host calls. The engine offers no limit and no measure, so its length
// is read where the engine keeps it, which costs the guest nothing: counting frames in the guest would take two writes
// a call, and know nothing of their sizes.
type guestStack struct{ slice reflect.Value }

// stackOf finds a function's stack. An engine that keeps none where this one does is told by the error.
func stackOf(f api.Function) (guestStack, error) {
	if v := reflect.ValueOf(f); v.Kind() == reflect.Pointer && v.Elem().Kind() == reflect.Struct {
		if s := v.Elem().FieldByName("stack"); s.IsValid() && s.Kind() == reflect.Slice {
			return guestStack{s}, nil
		}
	}
	return guestStack{}, errors.New("the engine's stack is not where it was: its version does not fit")
}

// bytes is its length. Only the goroutine that calls the function may ask, or the host's functions that the call makes.
func (s guestStack) bytes() int { return s.slice.Len() }
