package objectstore

import (
	"errors"
	"fmt"

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
