package hostmemory

import (
	"bytes"
	"os"
	"path"
	"runtime/metrics"
	"slices"
	"strconv"
)

// Gauge is a limit of memory, and where the system says how much of it is used.
type Gauge struct {
	Limit int64 // in bytes: the least limit of the process's cgroups, or the machine's memory

	// Of the cgroup whose limit it is; empty for the machine's.
	usage, stat string   // files
	spare       []string // keys in stat: what the system gives up without loss
}

// fallback is assumed where the system does not report its memory.
const fallback = 4 << 30

// Read returns the gauge of this process.
func Read() Gauge { return readUnder("/") }

// At returns a gauge for a lower limit than the system's: one of the process alone.
func (g Gauge) At(limit int64) Gauge {
	if limit <= 0 || limit >= g.Limit {
		return g
	}
	return Gauge{Limit: limit}
}

// Used returns the bytes that count against the limit: of the cgroup, what it has less what the system gives up without
// loss, else what of the machine's memory the process has.
func (g Gauge) Used() int64 {
	text, _ := os.ReadFile(g.usage)
	used, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
	if g.usage == "" || err != nil {
		return Resident()
	}
	text, _ = os.ReadFile(g.stat)
	for line := range bytes.Lines(text) {
		if key, value, _ := bytes.Cut(bytes.TrimSpace(line), []byte(" ")); slices.Contains(g.spare, string(key)) {
			n, _ := strconv.ParseInt(string(value), 10, 64)
			used -= n
		}
	}
	return max(used, 0)
}

// Resident returns what of the machine's memory the process has, in bytes; where the system does not say, what Go has.
func Resident() int64 { return residentUnder("/") }

func residentUnder(root string) int64 {
	text, _ := os.ReadFile(path.Join(root, "proc/self/statm"))
	if words := bytes.Fields(text); len(words) > 1 {
		if pages, err := strconv.ParseInt(string(words[1]), 10, 64); err == nil {
			return pages * int64(os.Getpagesize())
		}
	}
	return OfGo().All
}

// Go is what Go's runtime has of the machine's memory, in bytes.
type Go struct {
	All   int64 // what debug.SetMemoryLimit bounds
	Live  int64 // what the last collection found in use
	Waste int64 // of the heap, beyond that: at most so much comes free by a collection
}

// OfGo returns what Go's runtime has now.
func OfGo() Go {
	s := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/gc/heap/live:bytes"},
	}
	metrics.Read(s)
	n := func(i int) int64 { return int64(s[i].Value.Uint64()) }
	return Go{All: n(0) - n(1), Live: n(4), Waste: max(n(2)+n(3)-n(4), 0)}
}
