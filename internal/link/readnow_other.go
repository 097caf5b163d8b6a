//go:build unix && (race || !linux)

package link

import "syscall"

// readNow reads from a descriptor that does not block into b. The race detector sees what this read orders.
func readNow(fd uintptr, b []byte) (int, error) { return syscall.Read(int(fd), b) }
