package objectstore

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

func (s *segment) address(size int64) Shared {
	return Shared{PID: os.Getpid(), FD: s.fd, Device: s.node.device, Inode: s.node.number, Capacity: size}
}

// attachSegment maps another process's segment. The descriptor may have been closed or used for something else since
// it was announced; the file that is opened here stays the same, so that all checks are on it.
func attachSegment(at Shared, v Version) (*segment, error) {
	if at.PID <= 0 || at.FD < 0 || v.Size == 0 || at.Capacity < v.Size || at.Capacity != int64(int(at.Capacity)) {
		return nil, doubt("descriptor %d of process %d with %d bytes cannot hold %d", at.FD, at.PID, at.Capacity, v.Size)
	}
	if len(at.Sums) != Chunks(v.Size) {
		return nil, doubt("%d sums came with %d bytes, which are %d chunks", len(at.Sums), v.Size, Chunks(v.Size))
	}
	name := "/proc/" + strconv.Itoa(at.PID) + "/fd/" + strconv.Itoa(at.FD)
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("stat %s: %w", name, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Dev != at.Device || st.Ino != at.Inode || st.Size != at.Capacity {
		return nil, doubt("%s is not the memory that was announced: it was given up meanwhile", name)
	}
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil {
		return nil, fmt.Errorf("seals of %s: %w", name, err)
	}
	if seals&fixed != fixed {
		return nil, doubt("%s is not sealed against shrinking", name)
	}
	mem, err := unix.Mmap(fd, 0, int(st.Size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", name, err)
	}
	s := &segment{mem: mem, fd: -1, node: inode{st.Dev, st.Ino}, foreign: true}
	last := len(at.Sums) - 1
	from, n := v.Section(last)
	if err := v.verify(last, at.Sums[last], mem[from:from+int64(n)]); err != nil {
		s.destroy()
		return nil, err
	}
	return s, nil
}

// permanent reports whether err will be the same next time.
func permanent(err error) bool {
	for _, e := range []error{errNoSegments, unix.ENOSYS, unix.EPERM, unix.EACCES, unix.EINVAL} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
