//go:build !linux

package subprocess

import "os"

// SharedMemory returns nil: only Linux has files without a name in memory.
func SharedMemory() *os.File { return nil }
