package objectstore

import (
	"fmt"
	"time"

	"github.com/raysys/raysys"
)

// Config has the limits and places of a store. The zero value is a store for one process with a temporary spill
// directory.
type Config struct {
	// Budget is the memory that objects may take, in bytes; 0 is 30 % of AvailableMemory. The rest is for the values
	// that the program itself holds while it works on objects.
	Budget int64
	// Warm bounds the memory of segments kept mapped for the next object, in bytes, within Budget; 0 is a quarter of
	// it, less than 0 keeps none. First touch of cold memory is slower than a fast network.
	Warm int64
	// Dir is where spill files go, below it one directory per incarnation of the node. "" is a directory below
	// os.TempDir, made when something is spilled first and removed by Close.
	Dir string
	// Disk bounds the spill files, in bytes; 0 is all free space of the file system, less a reserve of 1 GiB or a
	// twentieth of it.
	Disk int64
	// Cluster, Node and Incarnation are the node's; spill files of another cluster or node are never read.
	Cluster     string
	Node        raysys.NodeID
	Incarnation uint64
	// FS stands in for the file system; nil is the real one.
	FS FS
	// Pressure, unless nil, is called before primaries are spilled: the program runs a collection, which releases
	// references that are unreachable (rule C25). It may block, but not on room in this store. It is called again
	// when a quarter of the budget was added, and, at most once a second, before a call fails because there is no
	// room.
	Pressure func()
	// Hooks are called for events. Nil functions are valid.
	Hooks Hooks
	// Now is the clock of Info.Since and of Pressure; nil is time.Now.
	Now func() time.Time
}

// Hooks are called outside the store's lock, and must not block for long.
type Hooks struct {
	// Dropped: a copy went to make room, so that this node is no location of it any more.
	Dropped func(Version)
	// Lost: the last form of an object is gone.
	Lost func(raysys.TaskID, error)
	// Trouble: something failed that the store works around, such as a spill directory that cannot be written.
	Trouble func(what string, err error)
}

// AvailableMemory is the memory that this process may have, in bytes: the least limit of its cgroups, or the machine's.
func AvailableMemory() int64 { return memory() }

// DefaultBudget is the Budget where none is given.
func DefaultBudget() int64 { return memory() / 10 * 3 }

func (c *Config) fill() error {
	if c.Budget < 0 || c.Disk < 0 {
		return fmt.Errorf("open object store: a budget of %d bytes of memory and %d of disk: give sizes above 0, or 0 for the default", c.Budget, c.Disk)
	}
	if c.Budget == 0 {
		c.Budget = DefaultBudget()
	}
	switch {
	case c.Warm < 0:
		c.Warm = 0
	case c.Warm == 0:
		c.Warm = c.Budget / 4
	}
	c.Warm = min(c.Warm, c.Budget)
	if c.FS == nil {
		c.FS = disk{}
	}
	if c.Node == "" {
		c.Node = "node"
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return nil
}
