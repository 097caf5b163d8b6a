package chaos

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/tasks"
)

// define defines the whole program.
func define(tb *raysys.Table) (parts []workload, vitals tasks.Task0[Vitals]) {
	for _, f := range workloads {
		parts = append(parts, f(tb))
	}
	return parts, tasks.Define0In(tb, "chaos.vitals", func(context.Context) (Vitals, error) { return own(), nil })
}

// Vitals are what a process needs that shall not grow.
type Vitals struct {
	Goroutines int    `json:"goroutines"`
	Files      int    `json:"files"`
	Heap       uint64 `json:"heap"`     // bytes that are in use after a collection
	Resident   uint64 `json:"resident"` // bytes of memory that the process has, 0 where the system does not say
}

// own are those of this process, after a collection.
func own() Vitals {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	files, _ := filepath.Glob("/proc/self/fd/*")
	return Vitals{Goroutines: runtime.NumGoroutine(), Files: len(files), Heap: m.HeapAlloc, Resident: resident()}
}

// resident reads /proc/self/statm, whose second word is the resident pages.
func resident() uint64 {
	b, err := os.ReadFile("/proc/self/statm")
	words := bytes.Fields(b)
	if err != nil || len(words) < 2 {
		return 0
	}
	pages, _ := strconv.ParseUint(string(words[1]), 10, 64)
	return pages * uint64(os.Getpagesize())
}

// most has the larger of each.
func (v Vitals) most(w Vitals) Vitals {
	return Vitals{max(v.Goroutines, w.Goroutines), max(v.Files, w.Files), max(v.Heap, w.Heap), max(v.Resident, w.Resident)}
}

func (v Vitals) String() string {
	return fmt.Sprintf("%d goroutines, %d files, %d MiB of heap, %d MiB resident", v.Goroutines, v.Files, v.Heap>>20, v.Resident>>20)
}

// Needs is what the processes and the store of a round need at one moment, or at most in some time.
type Needs struct {
	Driver  Vitals `json:"driver"`  // the process of the round, which lives as long as that
	Workers Vitals `json:"workers"` // the most that a worker needs
	Keys    int    `json:"keys"`    // in the store
}

func (n Needs) most(o Needs) Needs {
	return Needs{n.Driver.most(o.Driver), n.Workers.most(o.Workers), max(n.Keys, o.Keys)}
}

func (n Needs) String() string {
	return fmt.Sprintf("driver %v; a worker at most %v; %d keys", n.Driver, n.Workers, n.Keys)
}

// warmUp is the part of a round in which what processes need may grow; the part after it is compared with the last of
// the same length.
const warmUp = 6

// flat compares what was needed after the warm-up with what was needed at last, each at most. Fewer samples than show it
// give no figures.
func flat(seen []Needs) (first, last Needs, grown []string) {
	part := len(seen) / warmUp
	if part == 0 {
		return first, last, nil
	}
	for _, n := range seen[part : 2*part] {
		first = first.most(n)
	}
	for _, n := range seen[len(seen)-part:] {
		last = last.most(n)
	}
	// A half more, and what a busy moment takes.
	bounds := map[string][3]uint64{"keys": {uint64(first.Keys), uint64(last.Keys), 500}}
	for who, v := range map[string][2]Vitals{"driver": {first.Driver, last.Driver}, "workers": {first.Workers, last.Workers}} {
		bounds[who+": goroutines"] = [3]uint64{uint64(v[0].Goroutines), uint64(v[1].Goroutines), 100}
		bounds[who+": files"] = [3]uint64{uint64(v[0].Files), uint64(v[1].Files), 50}
		bounds[who+": heap"] = [3]uint64{v[0].Heap, v[1].Heap, 32 << 20}
		bounds[who+": resident"] = [3]uint64{v[0].Resident, v[1].Resident, 64 << 20}
	}
	for _, what := range slices.SortedFunc(maps.Keys(bounds), func(a, b string) int { return cmp.Compare(a, b) }) {
		if b := bounds[what]; b[1] > b[0]*3/2+b[2] {
			grown = append(grown, fmt.Sprintf("%s: %d after the warm-up, %d at last", what, b[0], b[1]))
		}
	}
	return first, last, grown
}

// flat reports what grew.
func (r *round) flat(rep *Report, seen []Needs) {
	first, last, grown := flat(seen)
	if last != (Needs{}) {
		rep.First, rep.Last = &first, &last
	}
	if grown != nil {
		r.violate("", "what a cluster needs does not grow", "%s\nafter the warm-up: %v\nat last: %v", strings.Join(grown, "\n"), first, last)
	}
}
