package testkit

import (
	"sync/atomic"
	"time"

	"github.com/raysys/raysys/internal/objectstore"
)

// slowDisk is the file system of a node's spill directory, on which each write may take longer.
type slowDisk struct {
	objectstore.FS
	by     atomic.Int64 // nanoseconds
	slowed atomic.Int64 // writes that took longer
}

func newSlowDisk() *slowDisk { return &slowDisk{FS: objectstore.RealFiles()} }

// Create implements objectstore.FS.
func (d *slowDisk) Create(name string) (objectstore.File, error) {
	f, err := d.FS.Create(name)
	if err != nil {
		return nil, err
	}
	return slowFile{f, d}, nil
}

type slowFile struct {
	objectstore.File
	disk *slowDisk
}

// WriteAt implements objectstore.File. The store holds no lock around it, for which no virtual time could pass.
func (f slowFile) WriteAt(b []byte, at int64) (int, error) {
	if by := f.disk.by.Load(); by > 0 {
		f.disk.slowed.Add(1)
		<-time.After(time.Duration(by))
	}
	return f.File.WriteAt(b, at)
}

// DiskSlow makes each write of node i to its spill directory take d longer, until it is called with 0, or Heal.
func (c *Cluster) DiskSlow(i int, d time.Duration) { c.host(i).disk.by.Store(int64(d)) }
