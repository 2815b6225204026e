//go:build !wasip1

package main

// desk returns a writer for a text.
func desk() *writer { return new(writer) }
