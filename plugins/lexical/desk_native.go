//go:build !wasip1

package main

// desk returns the work for scoring a name.
func desk() *work { return new(work) }
