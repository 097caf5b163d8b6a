package generator_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/tasks/generator"
	"github.com/raysys/raysys/testkit"
)

// numbered is an item, and the process that made it.
type numbered struct{ N, PID int }

var inProcesses = generator.Define("generator-test.processes", func(_ context.Context, n int, yield func(numbered) bool) error {
	for i := 0; i < n && yield(numbered{i, os.Getpid()}); i++ {
	}
	return nil
})

// TestSIGKILL: the process of the producer is killed in the middle. Without a retry the reader hears of it; with one it gets each item once.
func TestSIGKILL(t *testing.T) {
	p := testkit.Processes(t, 3)
	p.Ready()
	const all = 20_000
	for _, retries := range []int{0, 1} {
		next, makers := 0, map[int]bool{}
		var last error
		for v, err := range inProcesses.With(raysys.Retries(retries)).Go(p.Context(), all).All(p.Context()) {
			if err != nil {
				last = err
				break
			}
			if v.N != next {
				t.Fatalf("Retries(%d): item %d comes after %d", retries, v.N, next-1)
			}
			makers[v.PID] = true
			if next++; next == 7000 {
				kill(t, p, v.PID)
			}
		}
		switch {
		case retries == 0 && (!errors.Is(last, raysys.ErrNodeDead) || next == all):
			t.Errorf("Retries(0): %d items, then %v", next, last)
		case retries == 1 && (last != nil || next != all || len(makers) != 2):
			t.Errorf("Retries(1): %d items of %d processes, then %v", next, len(makers), last)
		}
	}
}

// kill kills the process of that number.
func kill(t *testing.T, p *testkit.Procs, pid int) {
	t.Helper()
	for i := range p.Size() {
		if p.Proc(i+1).PID() == pid {
			p.Proc(i + 1).Kill()
			return
		}
	}
	t.Fatal(fmt.Errorf("no process has the number %d", pid))
}
