package chaos

import (
	"context"
	"path/filepath"
	"runtime"

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
	Node       string `json:"node"`
	Goroutines int    `json:"goroutines"`
	Files      int    `json:"files"`
	Heap       uint64 `json:"heap"`
}

// own are those of this process, after a collection.
func own() Vitals {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	files, _ := filepath.Glob("/proc/self/fd/*")
	return Vitals{Goroutines: runtime.NumGoroutine(), Files: len(files), Heap: m.HeapAlloc}
}
