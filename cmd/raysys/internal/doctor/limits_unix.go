//go:build unix

package doctor

import (
	"fmt"
	"syscall"
)

// ReadLimits reads those of this process. Go programs raise the number of open files to the hard limit by themselves.
func ReadLimits() (Limits, error) {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return Limits{}, fmt.Errorf("getrlimit: %w", err)
	}
	return Limits{Files: uint64(r.Max)}, nil
}
