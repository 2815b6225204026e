//go:build !linux

package sandbox

// stamp tells a file from what was in its place before.
type stamp struct{}

// stampOf does not know here: every file is read again.
func stampOf(string) (stamp, bool) { return stamp{}, false }
