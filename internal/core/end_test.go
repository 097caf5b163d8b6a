package core_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"weak"

	"github.com/raysys/raysys/internal/core"
)

// ender is a runtime whose clock, when it is read, ends the turn that reads it.
type ender struct {
	still
	turn atomic.Pointer[core.Turn]
}

func (e *ender) Now() int64 {
	if t := e.turn.Swap(nil); t != nil {
		t.End()
	}
	return 0
}

// TestEndWhileAsked: a turn ends while a goroutine that it leaves behind asks its context for Done for the first time. The turn above, which
// goes on, keeps nothing of it.
func TestEndWhileAsked(t *testing.T) {
	e := &ender{}
	j := &core.Job{Runtime: e}
	j.Top = core.NewRoot(j, context.Background(), nil, core.TaskID{Hi: 1})
	const turns = 100
	var made []weak.Pointer[core.Turn]
	for n := range uint64(turns) {
		turn := core.NewTurn(core.TurnSpec{Kind: core.TurnTask, ID: core.TaskID{Lo: n}, Up: j.Top, Deadline: 1, Attempt: 1})
		e.turn.Store(turn)
		select {
		case <-core.HookContext(turn).Done():
		default:
			t.Fatal("the context of a turn that has ended goes on")
		}
		made = append(made, weak.Make(turn))
	}
	runtime.GC()
	kept := 0
	for _, w := range made {
		if w.Value() != nil {
			kept++
		}
	}
	if kept > 1 { // the last may be on the stack
		t.Errorf("%d of %d turns that have ended are kept", kept, turns)
	}
	runtime.KeepAlive(j)
}

// TestEndAtOnce: a turn ends at the moment at which such a goroutine asks. The context ends.
func TestEndAtOnce(t *testing.T) {
	j := &core.Job{Runtime: still{}}
	j.Top = core.NewRoot(j, context.Background(), nil, core.TaskID{Hi: 1})
	const turns = 5_000
	open := 0
	for n := range uint64(turns) {
		turn := core.NewTurn(core.TurnSpec{Kind: core.TurnTask, ID: core.TaskID{Lo: n}, Up: j.Top, Attempt: 1})
		var done <-chan struct{}
		var begun atomic.Int32
		together := func() {
			begun.Add(1)
			for i := 0; begun.Load() < 2; i++ {
				if i > 1000 { // one CPU
					runtime.Gosched()
				}
			}
		}
		var asked sync.WaitGroup
		asked.Go(func() {
			together()
			done = core.HookContext(turn).Done()
		})
		together()
		turn.End()
		asked.Wait()
		select {
		case <-done:
		default:
			open++
		}
	}
	if open > 0 {
		t.Errorf("%d of %d contexts never end", open, turns)
	}
}

// merged is a context of a program's own type, with the values of another, that ends by its own channel.
type merged struct {
	context.Context
	done chan struct{}
}

func (m merged) Done() <-chan struct{} { return m.done }

func (m merged) Err() error {
	select {
	case <-m.done:
		return context.Canceled
	default:
		return nil
	}
}

// TestContextOfOwnType: work is submitted with a context of the program's own type, which asks that of the turn, or of a branch of it. The work
// goes on after the turn, whatever becomes of the context.
func TestContextOfOwnType(t *testing.T) {
	for name, of := range map[string]func(context.Context) context.Context{
		"of the turn": func(ctx context.Context) context.Context { return ctx },
		"of a branch": func(ctx context.Context) context.Context { return core.Branch(ctx, 1) },
	} {
		synctest.Test(t, func(t *testing.T) {
			j := &core.Job{Runtime: still{}}
			j.Top = core.NewRoot(j, context.Background(), nil, core.TaskID{Hi: 1})
			turn := core.NewTurn(core.TurnSpec{Kind: core.TurnTask, ID: core.TaskID{Lo: 1}, Up: j.Top, Attempt: 1})
			ctx := merged{of(core.HookContext(turn)), make(chan struct{})}
			up, _, err := core.TurnOf(ctx)
			if err != nil || up.Base() == up {
				t.Fatal(name, up, err)
			}
			child := core.NewTurn(core.TurnSpec{Kind: core.TurnTask, ID: core.TaskID{Lo: 2}, Up: up, Attempt: 1})
			turn.End()
			close(ctx.done)
			synctest.Wait()
			if err := child.Cancelled(); err != nil {
				t.Errorf("a context %s ends after the turn: %v", name, err)
			}
		})
	}
}
