package pressure

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/hostmemory"
	"github.com/raysys/raysys/internal/loadreport"
)

// Shares of the limit.
const (
	roomyBelow  = 0.75 // and Go's soft limit
	crowdedFrom = 0.8
	fullFrom    = 0.9
)

const (
	lookEvery  = 50 * time.Millisecond // a program that fills its memory does so within a second
	softEvery  = 20                    // looks: the collector needs no news sooner
	roundEvery = time.Second           // in which grains go
	roundShare = 0.05                  // of a node's grains, each round
	fullShare  = 0.2                   // the same where grains wait for room
	maxVain    = 10                    // rounds in which nothing comes free
	restFor    = 10 * time.Second      // after the grains that went were wanted here, or nothing came free
	warnEvery  = time.Minute
	wantedFrom = 10 // of so many that went, one that is called here again ends it
)

// Grains is what a Watch asks of the engine that has the grains.
type Grains struct {
	// Unload lets a share of the grains go, of those that may. stays counts the others, by kind and by why.
	Unload func(share float64) (gone int, stays map[string]map[string]int)
	// Wanted says how many of those that went within about the last minute were called here again.
	Wanted func() (again, gone int)
	// Refuse has calls for grains that are not active fail with an error, or go elsewhere; nil ends that.
	Refuse func(error)
	// Changed is called when the node is another Memory.
	Changed func()
}

// Short is what a Watch says of memory that is short.
type Short struct {
	Used, Limit int64  // bytes
	Gone        int    // grains, since it said so last
	Stay        string // those that may not go, and why
	Next        string
}

// Watch keeps a process below its memory limit, as far as idle grains are what fills it.
type Watch struct {
	Node   raysys.NodeID
	Gauge  hostmemory.Gauge
	Used   func() int64 // of the limit, in bytes
	Free   func()       // gives the machine what nothing uses any more: a collection of garbage
	Waste  func() int64 // what Free may give, in bytes
	Grains Grains
	Soft   bool        // Go's collector gets a limit, too
	Warn   func(Short) // at most once a minute

	mu       sync.Mutex // guards the rest
	memory   loadreport.Memory
	used     int64
	unloaded uint64    // grains that went
	least    int64     // that was used since the node is crowded
	vain     int       // rounds since it was less
	round    time.Time // the last
	rests    time.Time // until then nothing is let go
	warned   time.Time
	gone     int  // since then
	freeable bool // grains went since Free
}

// Seen returns what the last look saw.
func Seen(w *Watch) (used int64, memory loadreport.Memory, unloaded uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.used, w.memory, w.unloaded
}

// MemoryOf returns what the node is; w is nil where nothing is watched.
func MemoryOf(w *Watch) loadreport.Memory {
	if w == nil {
		return loadreport.Roomy
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.memory
}

// Follow looks until ended.
func (w *Watch) Follow(ended <-chan struct{}) {
	if w.Soft && beginSoft(w) {
		defer endSoft(w)
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for looks := 0; ; looks++ {
		if looks%softEvery == 0 {
			soften(w)
		}
		select {
		case <-ended:
			return
		case now := <-tick.C:
			w.Look(now)
		}
	}
}

// Look is one look. It is called by one goroutine.
func (w *Watch) Look(now time.Time) {
	limit := float64(w.Gauge.Limit)
	used, due := w.Used(), !now.Before(w.rests) && now.Sub(w.round) >= roundEvery
	was := w.memory
	below := crowdedFrom * limit // where a collection changes what the node is
	switch {
	case float64(used) >= fullFrom*limit:
		below = fullFrom * limit
	case was != loadreport.Roomy:
		below = roomyBelow * limit
	}
	if float64(used) >= below && due && (w.freeable || float64(used-w.Waste()) < below) {
		w.Free() // a heap may be large for what nothing refers to
		used, w.freeable = w.Used(), false
	}
	memory := was
	switch share := float64(used) / limit; {
	case share >= fullFrom:
		memory = loadreport.Full
	case share >= crowdedFrom || share >= roomyBelow && was != loadreport.Roomy:
		memory = loadreport.Crowded
	default:
		memory = loadreport.Roomy
	}
	w.mu.Lock()
	w.used, w.memory = used, memory
	w.mu.Unlock()
	switch {
	case memory == loadreport.Full:
		const why = "%w: node %s starts no grain: %d of %d MiB of its memory are used: give it more, or add nodes"
		w.Grains.Refuse(fmt.Errorf(why, raysys.ErrOverloaded, w.Node, used>>20, w.Gauge.Limit>>20))
	case was == loadreport.Full:
		w.Grains.Refuse(nil)
	}
	if memory != was {
		w.Grains.Changed()
	}
	switch {
	case memory == loadreport.Roomy:
		w.least, w.vain, w.rests = 0, 0, time.Time{}
	case due:
		w.round = now
		w.letGo(now, used, memory)
	}
}

// letGo sheds a share, and rests where that is of no use.
func (w *Watch) letGo(now time.Time, used int64, is loadreport.Memory) {
	if w.vain++; w.least == 0 || used < w.least-w.Gauge.Limit/200 {
		w.least, w.vain = used, 0
	}
	share := roundShare
	if is == loadreport.Full {
		share = fullShare
	}
	gone, stays := w.Grains.Unload(share)
	w.gone += gone
	w.freeable = w.freeable || gone > 0
	w.mu.Lock()
	w.unloaded += uint64(gone)
	w.mu.Unlock()
	why := ""
	if again, of := w.Grains.Wanted(); again*wantedFrom >= of && again > 0 {
		why = fmt.Sprintf("%d of %d grains that went were called here again", again, of)
	} else if w.vain >= maxVain {
		why = fmt.Sprintf("nothing came free in %v", maxVain*roundEvery)
	}
	if why != "" {
		w.rests, w.least, w.vain = now.Add(restFor), 0, 0
		why = "rests for " + restFor.String() + ": " + why
	}
	if w.warned.IsZero() || now.Sub(w.warned) >= warnEvery {
		w.Warn(Short{used, w.Gauge.Limit, w.gone, listed(stays), cmp.Or(why, "it goes on")})
		w.warned, w.gone = now, 0
	}
}

// maxListed bounds the kinds that a line names.
const maxListed = 8

// listed shows what stays: of the kinds with the most, how many and why.
func listed(stays map[string]map[string]int) string {
	total := func(kind string) (n int) {
		for _, of := range stays[kind] {
			n += of
		}
		return n
	}
	kinds := slices.SortedFunc(maps.Keys(stays), func(a, b string) int {
		return cmp.Or(total(b)-total(a), strings.Compare(a, b))
	})
	var words []string
	for i, kind := range kinds {
		if i == maxListed {
			words = append(words, fmt.Sprintf("%d kinds more", len(kinds)-i))
			break
		}
		var of []string
		for _, why := range slices.Sorted(maps.Keys(stays[kind])) {
			of = append(of, fmt.Sprintf("%d %s", stays[kind][why], why))
		}
		words = append(words, kind+": "+strings.Join(of, ", "))
	}
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, "; ")
}
