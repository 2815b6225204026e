// Package recent keeps what was used most recently, within bounds.
package recent

import (
	"container/list"
	"sync"
)

// Cache holds at most so many entries and bytes; beyond either, what was used longest ago is forgotten. It is safe for
// concurrent use. It knows nothing of time: its user keeps in the value until when it holds.
type Cache[K comparable, V any] struct {
	mu      sync.Mutex
	entries int
	bytes   int
	used    int
	order   list.List // of *entry, most recently used first
	byKey   map[K]*list.Element
}

type entry[K comparable, V any] struct {
	key   K
	value V
	bytes int
}

// New returns a cache of at most so many entries that together are of at most so many bytes, as Put is told.
func New[K comparable, V any](entries, bytes int) *Cache[K, V] {
	return &Cache[K, V]{entries: entries, bytes: bytes, byKey: map[K]*list.Element{}}
}

// Get returns what Put kept last under key.
func (c *Cache[K, V]) Get(key K) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byKey[key]
	if !ok {
		var none V
		return none, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*entry[K, V]).value, true
}

// Put keeps value, which takes about so many bytes, in place of what was kept under key before. A value larger than the
// whole cache is not kept.
func (c *Cache[K, V]) Put(key K, value V, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byKey[key]; ok {
		c.drop(e)
	}
	if bytes > c.bytes {
		return
	}
	c.byKey[key] = c.order.PushFront(&entry[K, V]{key, value, bytes})
	c.used += bytes
	for c.used > c.bytes || c.order.Len() > c.entries {
		c.drop(c.order.Back())
	}
}

func (c *Cache[K, V]) drop(e *list.Element) {
	gone := c.order.Remove(e).(*entry[K, V])
	delete(c.byKey, gone.key)
	c.used -= gone.bytes
}

// Size returns how many entries and bytes are kept.
func (c *Cache[K, V]) Size() (entries, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.order.Len(), c.used
}
