package main

// inGuest is the only work of a guest, which has one thread.
var inGuest work

// desk returns the work for scoring a name.
func desk() *work { return &inGuest }
