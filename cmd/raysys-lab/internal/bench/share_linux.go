package bench

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// shareable copies data into a file in memory, which other processes find at path until done.
func shareable(data []byte) (path string, done func() error, err error) {
	fd, err := unix.MemfdCreate("raysys-bench", unix.MFD_CLOEXEC)
	if err != nil {
		return "", nil, fmt.Errorf("make a file in memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), "raysys-bench")
	if _, err := f.Write(data); err != nil {
		return "", nil, errors.Join(fmt.Errorf("fill a file in memory: %w", err), f.Close())
	}
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd), f.Close, nil
}

// mapFile maps a file to be read, until done.
func mapFile(path string, n int) (b []byte, done func() error, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	if b, err = unix.Mmap(int(f.Fd()), 0, n, unix.PROT_READ, unix.MAP_SHARED); err != nil {
		return nil, nil, fmt.Errorf("map %s: %w", path, err)
	}
	return b, func() error { return unix.Munmap(b) }, nil
}

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
