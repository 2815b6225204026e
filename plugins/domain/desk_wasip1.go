package main

// inGuest is the only writer of a guest, which has one thread and raises one signal at a time.
var inGuest writer

// desk returns a writer for a text.
func desk() *writer { return &inGuest }
