//go:build unix

package objectstore

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

func (disk) Space(dir string) (free, all int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, fmt.Errorf("ask for the space of %s: %w", dir, err)
	}
	return int64(st.Bavail) * int64(st.Bsize), int64(st.Blocks) * int64(st.Bsize), nil
}

func (disk) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// mapBody maps size bytes of f from offset body on, read-only. A file that is made shorter while it is mapped raises
// a signal on access; only another program would do that, since the store only removes files.
func mapBody(f File, body, size int64) (*fileMapping, error) {
	file := f.OS()
	if file == nil || size == 0 || size != int64(int(size)) {
		return nil, errNotMappable
	}
	page := int64(os.Getpagesize())
	from := body / page * page
	mem, err := unix.Mmap(int(file.Fd()), from, int(body-from+size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotMappable, err)
	}
	return &fileMapping{mem: mem, body: mem[body-from : body-from+size : body-from+size]}, nil
}

func (m *fileMapping) destroy() { _ = unix.Munmap(m.mem) }
