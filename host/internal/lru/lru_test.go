package lru

import (
	"strconv"
	"sync"
	"testing"

	"assay/registry/expect"
)

func TestCache(t *testing.T) {
	t.Parallel()
	c := New[string, int](3, 100)
	get := func(key string, want int, known bool) {
		t.Helper()
		got, ok := c.Get(key)
		expect.That(t, ok == known && got == want, "Get(%s) = %d, %v, want %d, %v", key, got, ok, want, known)
	}
	size := func(entries, bytes int) {
		t.Helper()
		e, b := c.Size()
		expect.That(t, e == entries && b == bytes, "%d entries of %d bytes, want %d of %d", e, b, entries, bytes)
	}
	get("a", 0, false)
	c.Put("a", 1, 10)
	c.Put("b", 2, 10)
	c.Put("c", 3, 10)
	get("a", 1, true) // b is now the least recently used
	c.Put("d", 4, 10)
	get("b", 0, false)
	size(3, 30)
	c.Put("a", 5, 20)
	get("a", 5, true)
	size(3, 40)
	c.Put("e", 6, 95) // leaves no room for any other
	size(1, 95)
	get("e", 6, true)
	c.Put("e", 7, 101) // larger than the cache: drops the old value too
	size(0, 0)
	get("e", 0, false)
	c.Put("a", 1, 10)
	c.Put("b", 2, 10)
	c.Forget("a")
	c.Forget("x")
	get("a", 0, false)
	size(1, 10)
	c.Clear()
	get("b", 0, false)
	size(0, 0)
}

func TestCacheStaysWithinBounds(t *testing.T) {
	t.Parallel()
	c := New[string, int](50, 1000)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 2000 {
				c.Put(strconv.Itoa(i*7%300), i, i%40+w)
				c.Get(strconv.Itoa(i % 300))
			}
		})
	}
	wg.Wait()
	entries, bytes := c.Size()
	expect.That(t, entries != 0 && entries <= 50 && bytes <= 1000, "%d entries of %d bytes, want at most 50 of 1000",
		entries, bytes)
	expect.That(t, len(c.byKey) == entries, "%d keys for %d entries", len(c.byKey), entries)
}
