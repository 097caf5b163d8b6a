package objectstore

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// fixed are the seals of a segment: no process, its owner included, can make it shorter, so that no mapping of it
// ever faults.
const fixed = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// allocationStep bounds one fallocate call: an interrupted one undoes all it did.
const allocationStep = 64 << 20

func newSegment(size int64) (*segment, error) {
	fd, err := unix.MemfdCreate("raysys-object", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("create memory file: %w", err)
	}
	s := &segment{fd: fd}
	if err := s.fill(size); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("memory file of %d bytes: %w", size, err)
	}
	return s, nil
}

// segmentLimit bounds a store's segments: a quarter of the descriptors that this process may have, so that connections and
// files find theirs, and few beside the 65,530 mappings that the kernel allows.
func segmentLimit() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 256
	}
	return int(min(limit.Cur/4, 4096))
}

// fill gives the file its pages: a page that is missing would have to be found at the first touch, where lack of memory
// is a signal and not an error.
func (s *segment) fill(size int64) error {
	for at := int64(0); at < size; at += allocationStep {
		for {
			err := unix.Fallocate(s.fd, 0, at, min(allocationStep, size-at))
			if err == nil {
				break
			}
			if !errors.Is(err, unix.EINTR) {
				return fmt.Errorf("allocate: %w", err)
			}
		}
	}
	if _, err := unix.FcntlInt(uintptr(s.fd), unix.F_ADD_SEALS, fixed); err != nil {
		return fmt.Errorf("seal: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(s.fd, &st); err != nil {
		return fmt.Errorf("stat: %w", err)
	}
	mem, err := unix.Mmap(s.fd, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map: %w", err)
	}
	s.mem, s.node = mem, inode{st.Dev, st.Ino}
	// The pages are there. Entering them in the page table all at once costs less than a fault for each, which took a fifth
	// of the time of a first transfer. Kernels before 5.14 do not know how, and take the faults.
	for rest := mem; len(rest) > 0; {
		n := min(len(rest), allocationStep)
		if unix.Madvise(rest[:n], unix.MADV_POPULATE_WRITE) != nil {
			break
		}
		rest = rest[n:]
	}
	return nil
}

// destroy unmaps the segment; its pages stay while another process maps them.
func (s *segment) destroy() {
	if s.mem != nil {
		_ = unix.Munmap(s.mem)
		s.mem = nil
	}
	if s.fd >= 0 {
		unix.Close(s.fd)
		s.fd = -1
	}
}

// Reserve allocates the blocks, so that a full disk is noticed before anything is written.
func (f diskFile) Reserve(size int64) error {
	for size > 0 {
		err := unix.Fallocate(int(f.Fd()), 0, 0, size)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
			return nil // the writes will tell
		default:
			return err
		}
	}
	return nil
}

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
