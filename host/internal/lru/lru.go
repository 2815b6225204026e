// Package lru provides a least-recently-used cache bounded by entries and bytes. Entries do not expire.
package lru

import (
	"container/list"
	"sync"
)

// Cache evicts the least recently used entries beyond its limits of entries and bytes. It is safe for concurrent use. A
// caller that needs expiry stores the time in the value.
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

// New returns a cache of at most the given entries, with at most the given sum of the sizes passed to Put.
func New[K comparable, V any](entries, bytes int) *Cache[K, V] {
	return &Cache[K, V]{entries: entries, bytes: bytes, byKey: map[K]*list.Element{}}
}

// Get returns the value of key and marks it as used.
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

// Put sets the value of key, whose size is about the given bytes. It does not store a value that is larger than the
// whole cache.
func (c *Cache[K, V]) Put(key K, value V, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(key)
	if bytes > c.bytes {
		return
	}
	c.byKey[key] = c.order.PushFront(&entry[K, V]{key, value, bytes})
	c.used += bytes
	for c.used > c.bytes || c.order.Len() > c.entries {
		c.drop(c.order.Back().Value.(*entry[K, V]).key)
	}
}

// Forget removes a key.
func (c *Cache[K, V]) Forget(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(key)
}

// Clear removes all keys.
func (c *Cache[K, V]) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.order.Init()
	clear(c.byKey)
	c.used = 0
}

func (c *Cache[K, V]) drop(key K) {
	if e, ok := c.byKey[key]; ok {
		c.used -= c.order.Remove(e).(*entry[K, V]).bytes
		delete(c.byKey, key)
	}
}

// Size returns the current number of entries and bytes.
func (c *Cache[K, V]) Size() (entries, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.order.Len(), c.used
}
