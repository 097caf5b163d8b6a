package childserver

import "io/fs"

// safe has nothing to ask: the mode of a file says nothing about other users here.
func safe(fs.FileInfo) bool { return true }
