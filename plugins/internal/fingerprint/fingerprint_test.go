package fingerprint

import (
	"fmt"
	"testing"

	"assay/registry/expect"
)

func TestSet(t *testing.T) {
	t.Parallel()
	numbers := map[uint64]int{}
	name := func(i int) string { return fmt.Sprintf("name%d.example", i) }
	for i := range 40000 {
		numbers[Of(name(i))] = i%9 + 1
	}
	set := Encode(numbers)
	expect.Equal(t, "length", set.Len(), len(numbers))
	expect.Equal(t, "size", len(set), head+entryBytes*len(numbers))
	for i := range 40000 {
		expect.Equal(t, name(i), set.Find(name(i)), min(numbers[Of(name(i))], MaxNumber))
	}
	wrong := 0
	for i := range 400000 {
		if set.Find(fmt.Sprintf("other%d.example", i)) > 0 {
			wrong++
		}
	}
	expect.Equal(t, "other names of 400,000 that the set has", wrong, 0)
	expect.Equal(t, "in an empty file", Set("").Find("name1.example"), 0)
	expect.Equal(t, "in an empty set", Encode(nil).Find("name1.example"), 0)
}
