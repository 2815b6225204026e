//go:build !wasip1

package main

// desk returns the work to score a name with.
func desk() *work { return new(work) }
