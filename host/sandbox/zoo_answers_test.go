package sandbox_test

import (
	"encoding/binary"
	"strings"
)

// Guests that answer: a healthy one, those that answer what they must not, and those whom the world would tempt.

// said is the one code that the zoo's manifests declare.
const said = "zoo:guest:said"

// healthy gives a signal whose text is the entity's value, worth its length.
func healthy() *layer {
	l := newLayer()
	return l.scoring(l.text("entity.value"), num(buffer), num(200), call(fact), setLocal(0),
		local(0), l.text(said), num(buffer), local(0), call(signal), scored)
}

// saying gives one signal.
func saying(points int, code, text string) func() []byte {
	return func() []byte {
		l := newLayer()
		return l.scoring(l.says(points, code, text), scored).encode()
	}
}

// sayingOften gives n signals.
func sayingOften(n int) func() []byte {
	return func() []byte {
		l := newLayer()
		return l.scoring(times(n, l.says(1, said, "again")), scored).encode()
	}
}

// sayingBytes gives a signal with a text of n bytes.
func sayingBytes(n int) func() []byte {
	return func() []byte {
		l := newLayer()
		return l.scoring(wholeMemory, drop, num(1), l.text(said), num(buffer), num(n), call(signal), scored).encode()
	}
}

func threatening(name string) func() []byte {
	return func() []byte {
		l := newLayer()
		return l.scoring(l.text(name), call(threat), scored).encode()
	}
}

// returning ends with that outcome.
func returning(outcome int) func() []byte {
	return func() []byte { return scoring(num(outcome)).encode() }
}

// logging logs n bytes of x, and traps, so that what was kept can be seen.
func logging(text string, n int) func() []byte {
	return func() []byte {
		l := newLayer()
		first := cat(num(0), l.text(text), call(log))
		if n > 0 {
			first = cat(wholeMemory, drop, num(buffer), num('x'), num(n), op(0xfc, 11, 0), num(0), num(buffer), num(n),
				call(log))
		}
		return l.scoring(first, unreachable).encode()
	}
}

// subscription is a WASI subscription to a clock, due in an hour.
func subscription() string {
	b := make([]byte, 48)
	binary.LittleEndian.PutUint32(b[16:], 1)
	binary.LittleEndian.PutUint64(b[24:], 3600e9)
	return string(b)
}

// sleepAnHour answers once poll_oneoff, asked for n subscriptions, has returned.
func sleepAnHour() []byte {
	l := newLayer().importing(pollOneoff)
	return l.scoring(l.text(subscription()), drop, num(buffer), num(1), num(0), call(log+1),
		when(unreachable), l.says(5, said, "slept"), scored).encode()
}

// overflowSubscriptions asks for so many that their size in bytes wraps around; it answers when that was refused.
func overflowSubscriptions(n int) func() []byte {
	return func() []byte {
		l := newLayer().importing(pollOneoff)
		return l.scoring(l.text(subscription()), drop, num(buffer), num(n), num(0), call(log+1),
			when(l.says(6, said, "refused"), scored, returns), unreachable).encode()
	}
}

// invalid answers once a WASI function, called with code, has told it that it asked for something invalid.
func invalid(function imported, code ...[]byte) func() []byte {
	return func() []byte {
		l := newLayer().importing(function)
		return l.scoring(wholeMemory, drop, cat(code...), call(log+1), num(28), op(0x46),
			when(l.says(6, said, "refused"), scored, returns), unreachable).encode()
	}
}

// flipACoin scores by the clock and by a random byte.
func flipACoin() []byte {
	l := newLayer().importing(wasi("clock_time_get", i32+i64+i32, i32), randomGet)
	clock := func(id int) []byte { return cat(num(id), long(1), num(buffer), call(log+1), drop, num(buffer), load) }
	random := cat(num(buffer), num(4), call(log+2), drop, num(buffer), load)
	mixed := cat(clock(0), clock(1), op(0x73), random, op(0x73), op(0x69)) // the bits set in their exclusive or
	return l.scoring(mixed, l.text(said), l.text("heads"), call(signal), scored).encode()
}

// remember says how often this instance was called before: what one call leaves behind, the next one sees.
func remember() []byte {
	l := newLayer()
	l.globals = [][]byte{cat([]byte(i32), op(1), num(0), op(0x0b))}
	return l.scoring(global(0), num(1), add, setGlobal(0),
		num(buffer), num(buffer), load, num(1), add, store,
		global(0), l.text(said), l.text("calls by the global"), call(signal),
		num(buffer), load, l.text(said), l.text("calls by the memory"), call(signal), scored).encode()
}

// tellThePrevious keeps the entity it was asked about and tells it to the next caller.
func tellThePrevious() []byte {
	l := newLayer()
	const before, now = buffer, buffer + 1024
	length := cat(num(before), load)
	return l.scoring(
		length, when(num(1), l.text(said), num(before+4), length, call(signal)),
		num(before), l.text("entity.value"), num(now), num(200), call(fact), store,
		num(before+4), num(now), length, op(0xfc, 10, 0, 0), scored).encode()
}

// growNearLimit fills its memory up to the last page and says how much it has got.
func growNearLimit() []byte {
	l := newLayer()
	return l.scoring(memorySize, num(16), op(0x48), when(num(1), growMemory, drop),
		num(buffer), num(1), num(40<<10), op(0xfc, 11, 0),
		memorySize, l.text(said), l.text("pages"), call(signal), scored).encode()
}

// slowButLegal works for n turns and answers.
func slowButLegal(n int) func() []byte {
	return func() []byte {
		l := newLayer()
		return l.scoring(times(n, local(1), long(1), op(0x7c), setLocal(1)), l.says(7, said, "done"), scored).encode()
	}
}

func simdHeavy() []byte {
	l := newLayer()
	f := function{locals: i32 + v128, body: times(10_000, local(1), local(1), op(0xfd, 0xae, 1), op(0xfd, 0x4d),
		setLocal(1))}
	return l.scoring(call(score+1), l.says(8, said, "done"), scored).with(f).encode()
}

// nested is a text of brackets.
var nested = strings.Repeat("[", 240)
