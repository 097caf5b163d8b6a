package testkit_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// begun notes in which order tasks begin.
type begun struct {
	mu   sync.Mutex
	list []string
}

func (b *begun) note(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = append(b.list, name)
}

type named struct {
	Name string
	For  time.Duration
	Kids int
}

// noting defines a task that notes that it begins, submits children that note it too, and takes its time.
func noting(table *raysys.Table, b *begun) (task tasks.Task[named, int]) {
	child := tasks.DefineIn(table, "child", func(_ context.Context, name string) (int, error) {
		b.note(name)
		return 0, nil
	})
	return tasks.DefineIn(table, "task", func(ctx context.Context, n named) (int, error) {
		b.note(n.Name)
		<-time.After(n.For) // virtual
		for range n.Kids {
			child.With(raysys.Detached()).Go(ctx, n.Name+"'s")
		}
		return 0, nil
	})
}

// TestPriority: of the tasks that wait for one CPU those of class High begin first and those of class Low last, each class in the
// order of its submissions; children have the class of their parent. It holds for plain tasks, for those that wait in the line of the
// ledger, and on another node, to which the class travels.
func TestPriority(t *testing.T) {
	for name, c := range map[string]struct {
		opt   []raysys.Option
		nodes int
	}{
		"plain":      {},
		"in line":    {opt: []raysys.Option{raysys.Memory(1)}},
		"elsewhere":  {nodes: 1},
		"there, too": {nodes: 1, opt: []raysys.Option{raysys.Memory(1)}},
	} {
		t.Run(name, func(t *testing.T) {
			var b begun
			table := raysys.NewTable()
			task := noting(table, &b).With(c.opt...)
			opts := []testkit.Option{testkit.Table(table), testkit.CPU(1)}
			if c.nodes > 0 {
				opts = append(opts, testkit.Nodes(c.nodes))
			}
			testkit.Virtual(t, func(k *testkit.Kit) {
				ctx := k.Context()
				if c.nodes > 0 {
					k.Cluster().Ready()
				}
				var all []raysys.Ref[int]
				add := func(n named, opts ...raysys.Option) { all = append(all, task.With(opts...).Go(ctx, n)) }
				add(named{Name: "first", For: 5 * time.Millisecond})
				k.Advance(2 * time.Millisecond)
				for i := range 2 {
					add(named{Name: fmt.Sprint("normal ", i)})
				}
				for i := range 2 {
					add(named{Name: fmt.Sprint("low ", i)}, raysys.Priority(raysys.Low))
				}
				add(named{Name: "high 0", Kids: 1}, raysys.Priority(raysys.High))
				add(named{Name: "high 1"}, raysys.Priority(raysys.High))
				for _, ref := range all {
					if _, err := ref.Get(ctx); err != nil {
						t.Error(err)
					}
				}
				k.Advance(time.Second)
				b.mu.Lock()
				defer b.mu.Unlock()
				child := slices.Index(b.list, "high 0's") // it may come before the second, which is not there yet
				if child < 0 || child > slices.Index(b.list, "normal 0") {
					t.Errorf("a child of a task of class High did not begin before Normal tasks: %q", b.list)
				}
				b.list = slices.DeleteFunc(b.list, func(s string) bool { return s == "high 0's" })
				want := []string{"first", "high 0", "high 1", "normal 0", "normal 1", "low 0", "low 1"}
				if diff := cmp.Diff(want, b.list); diff != "" {
					t.Errorf("the tasks began in another order than that of their classes:\n%s", diff)
				}
			}, opts...)
		})
	}
}

// TestNothingStarves: while tasks of class High take all there is, a Normal task begins after one step of aging and a Low one after
// two, in the run queue and in the line, and before the next step. In the long form that is 2 s later at most.
func TestNothingStarves(t *testing.T) {
	for name, opt := range map[string][]raysys.Option{"plain": nil, "in line": {raysys.Memory(1)}} {
		t.Run(name, func(t *testing.T) {
			table := raysys.NewTable()
			var since atomic.Pointer[time.Time]
			waited := map[string]time.Duration{}
			var mu sync.Mutex
			task := tasks.DefineIn(table, "task", func(_ context.Context, name string) (int, error) {
				if !strings.HasPrefix(name, "high") {
					mu.Lock()
					waited[name] = time.Since(*since.Load())
					mu.Unlock()
				}
				<-time.After(500 * time.Millisecond)
				return 0, nil
			}).With(opt...)
			testkit.Virtual(t, func(k *testkit.Kit) {
				ctx := k.Context()
				high := task.With(raysys.Priority(raysys.High))
				task.Go(ctx, "high, the first")
				k.Settle()
				now := time.Now()
				since.Store(&now)
				task.With(raysys.Priority(raysys.Low)).Go(ctx, "low")
				task.Go(ctx, "normal")
				for i := range 120 { // twice as many as one CPU does
					high.Go(ctx, fmt.Sprint("high ", i))
					high.Go(ctx, fmt.Sprint("high ", i, " too"))
					k.Advance(500 * time.Millisecond)
				}
				mu.Lock()
				defer mu.Unlock()
				for name, least := range map[string]time.Duration{"normal": core.AgeStep, "low": 2 * core.AgeStep} {
					if d, begun := waited[name]; !begun || d < least || d > least+long.Form(core.AgeStep, 2*time.Second) {
						t.Errorf("the %s task began after %v (%t), want %v and a little", name, d, begun, least)
					}
				}
			}, testkit.Table(table), testkit.CPU(1))
		})
	}
}

// TestMapLetsHigherGo: the tasks of a Map that have not begun wait for one of class High that comes later.
func TestMapLetsHigherGo(t *testing.T) {
	var b begun
	table := raysys.NewTable()
	task := tasks.DefineIn(table, "task", func(_ context.Context, n int) (int, error) {
		b.note(fmt.Sprint(n))
		<-time.After(10 * time.Millisecond) // virtual
		return 0, nil
	})
	testkit.Virtual(t, func(k *testkit.Kit) {
		refs := task.Map(k.Context(), []int{0, 1, 2, 3})
		k.Advance(5 * time.Millisecond)
		refs = append(refs, task.With(raysys.Priority(raysys.High)).Go(k.Context(), 4))
		for _, ref := range refs {
			if _, err := ref.Get(k.Context()); err != nil {
				t.Error(err)
			}
		}
		if diff := cmp.Diff([]string{"0", "4", "1", "2", "3"}, b.list); diff != "" {
			t.Errorf("the tasks began in another order:\n%s", diff)
		}
	}, testkit.Table(table), testkit.CPU(1), testkit.Loose())
}
