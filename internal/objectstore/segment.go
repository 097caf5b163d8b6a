package objectstore

import "errors"

// segment is memory outside the collector's, which other processes of the host can map: a memory file of fixed size.
// Its pages are there before it is used, so that touching it can neither fail nor wait for the kernel.
type segment struct {
	mem  []byte // the whole mapping
	fd   int    // of the memory file; -1 for a foreign one
	node inode
	// shared is set for ever once another process may map it: from then on its bytes never change.
	shared bool
	// foreign is another process's segment, mapped read-only. Its pages count against that process's budget.
	foreign bool
}

// inode says which file it is, on this host and until it restarts.
type inode struct{ device, number uint64 }

// errNoSegments says that this platform has no memory files.
var errNoSegments = errors.New("this platform has no memory files that processes can share")

// segmentGrain rounds capacities: they are multiples of it, in bytes, so that a warm segment fits the next object of
// about the same size.
const segmentGrain = 64 << 10

// minSegment is the size from which received bytes go to a segment, in bytes: below it a buffer of the collector's is
// as good, and costs no descriptor.
const minSegment = 256 << 10

func capacity(size int64) int64 { return (size + segmentGrain - 1) / segmentGrain * segmentGrain }

// warm is the pool of segments that are mapped and unused. The store's mutex guards it.
type warm struct {
	idle  []*segment // oldest first
	bytes int64
	limit int64
}

// take returns the tightest idle segment for size bytes, nil when none fits: at most half of it may stay unused.
func (w *warm) take(size int64) *segment {
	best := -1
	for i, s := range w.idle {
		if c := int64(len(s.mem)); c >= size && c/2 <= size && (best < 0 || c < int64(len(w.idle[best].mem))) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	return w.remove(best)
}

func (w *warm) remove(i int) *segment {
	s := w.idle[i]
	w.idle = append(w.idle[:i], w.idle[i+1:]...)
	w.bytes -= int64(len(s.mem))
	return s
}

// keep takes s unless it may be mapped elsewhere or the pool is full.
func (w *warm) keep(s *segment) bool {
	if s.shared || s.foreign || w.bytes+int64(len(s.mem)) > w.limit {
		return false
	}
	w.idle = append(w.idle, s)
	w.bytes += int64(len(s.mem))
	return true
}
