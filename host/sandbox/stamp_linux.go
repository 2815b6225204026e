package sandbox

import "golang.org/x/sys/unix"

// stamp tells a file from what was in its place before. The kernel sets the time of change at every write, rename, link
// or change of the other times, and nobody else can set it (inode(7)).
type stamp struct {
	device, inode uint64
	size          int64
	changed       unix.Timespec
}

// stampOf reads a file's stamp; told is false when there is none to be had.
func stampOf(path string) (s stamp, told bool) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return stamp{}, false
	}
	return stamp{st.Dev, st.Ino, st.Size, st.Ctim}, true
}
