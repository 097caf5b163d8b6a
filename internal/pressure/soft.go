package pressure

import (
	"math"
	"runtime/debug"
	"sync"

	"github.com/raysys/raysys/internal/hostmemory"
)

// soft is the limit that Go's collector has from the Watches of this process: the least of theirs. A limit that the
// program sets itself stays.
var soft struct {
	sync.Mutex
	wanted map[*Watch]int64
	set    int64
}

// beginSoft enters a Watch; false where the program has set a limit.
func beginSoft(w *Watch) bool {
	soft.Lock()
	defer soft.Unlock()
	if soft.wanted == nil {
		soft.wanted = map[*Watch]int64{}
	}
	if len(soft.wanted) == 0 {
		soft.set = math.MaxInt64
	}
	if debug.SetMemoryLimit(-1) != soft.set {
		return false
	}
	soft.wanted[w] = math.MaxInt64
	return true
}

// soften gives the collector the Watch's limit.
func soften(w *Watch) {
	soft.Lock()
	defer soft.Unlock()
	if _, entered := soft.wanted[w]; !entered {
		return
	}
	soft.wanted[w] = softOf(w.Gauge.Limit, w.Used(), hostmemory.OfGo())
	setSoftLocked(w.Gauge.Limit / 100)
}

// Bounds of the collector's limit.
const (
	slack     = 1.0 / 16 // of what is in use comes on top, or the collector would never rest
	softBelow = 0.95
)

// softOf is a share of the limit, less what the process has outside Go, such as mapped objects, and more where more is
// in use.
func softOf(limit, used int64, of hostmemory.Go) int64 {
	outside := float64(max(used-of.All, 0))
	inUse := float64(of.All-of.Waste) + slack*float64(of.Live)
	share := max(roomyBelow*float64(limit)-outside, min(inUse, softBelow*float64(limit)-outside))
	return int64(max(share, float64(limit)/4))
}

// endSoft takes a Watch out. The last one takes its limit along.
func endSoft(w *Watch) {
	soft.Lock()
	defer soft.Unlock()
	delete(soft.wanted, w)
	setSoftLocked(0)
}

// setSoftLocked sets the least limit, where it differs by more than so many bytes from the one that is set.
func setSoftLocked(by int64) {
	least := int64(math.MaxInt64)
	for _, limit := range soft.wanted {
		least = min(least, limit)
	}
	if off := least - soft.set; off <= by && off >= -by || debug.SetMemoryLimit(-1) != soft.set {
		return
	}
	soft.set = least
	debug.SetMemoryLimit(least)
}
