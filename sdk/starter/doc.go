// Package starter is the layer that `assay plugin new` writes in Go. Its copy in the other languages gives the same
// answers: see package rehearsal.
package starter
