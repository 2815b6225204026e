package sandbox

import "golang.org/x/sys/unix"

// fileStamp identifies one version of a file. The kernel updates the change time on every write, rename, link or change
// of the other times, and no program can set it (inode(7)).
type fileStamp struct {
	device, inode uint64
	size          int64
	changed       unix.Timespec
}

// stampOf returns a file's stamp, or false if the file cannot be read.
func stampOf(path string) (fileStamp, bool) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return fileStamp{}, false
	}
	return fileStamp{st.Dev, st.Ino, st.Size, st.Ctim}, true
}
