package bench

import (
	"fmt"
	"os/exec"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// cpus lists the processors that this process may use.
func cpus() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("read CPU affinity: %w", err)
	}
	var list []int
	for i := range 8 * int(unsafe.Sizeof(set)) {
		if set.IsSet(i) {
			list = append(list, i)
		}
	}
	return list, nil
}

// startOn starts a process that may use one processor only, as taskset does. The thread that starts it is pinned for
// that moment, because a process inherits from the thread; so the Go runtime of the child counts one processor too.
func startOn(cmd *exec.Cmd, cpu int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return fmt.Errorf("read CPU affinity: %w", err)
	}
	one.Set(cpu)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return fmt.Errorf("pin to CPU %d: %w", cpu, err)
	}
	err := cmd.Start()
	if e := unix.SchedSetaffinity(0, &before); err == nil && e != nil {
		return fmt.Errorf("restore CPU affinity: %w", e)
	}
	return err
}
