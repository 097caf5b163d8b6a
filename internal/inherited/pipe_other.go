//go:build !unix

package inherited

// Pipe finds none: only on Unix does a child process inherit one.
func Pipe(string) (fd int, ok bool) { return 0, false }
