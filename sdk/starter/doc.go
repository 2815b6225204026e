// Package starter is the layer that `assay plugin new` writes in Go. Its copies in other languages give the same
// answers (see package rehearsal).
package starter
