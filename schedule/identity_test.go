package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/taskengine"
	"github.com/raysys/raysys/testkit"
)

// ended waits for a task.
type ended struct {
	waiter core.Waiter
	done   chan error
}

func (e *ended) Resolved(w *core.Waiter) { e.done <- w.Future().Failure() }

// TestSameTask: a task with a name and a Key is that of one firing. The same one is joined while it runs, and has its outcome afterwards, on
// whatever node; another one is refused while it runs, and runs after it.
func TestSameTask(t *testing.T) {
	for _, nodes := range []int{0, 2} {
		t.Run(fmt.Sprint(nodes, " nodes"), func(t *testing.T) {
			var opts []testkit.Option
			if nodes > 0 {
				opts = append(opts, testkit.Nodes(nodes))
			}
			testkit.Virtual(t, func(k *testkit.Kit) {
				clear()
				t := k.T()
				submit := func(ctx context.Context, key string) func() error {
					arg := "x"
					p, err := taskengine.Pack(*(*taskengine.Task)(core.HandleIn(&slowJob)), unsafe.Pointer(&arg))
					must(t, err)
					p.Opts.Detached, p.Opts.Name, p.Opts.Key = true, "nightly", key
					o := &ended{done: make(chan error, 1)}
					if c := core.FutureOf(taskengine.GoPacked(ctx, &p)); !c.Subscribe(&o.waiter, o) {
						o.done <- c.Failure()
					}
					return func() error { return <-o.done }
				}
				one, other := k.Context(), k.Context()
				if nodes > 0 {
					other = k.Cluster().Node(2).Context(t.Context())
				}
				first, joins, refused := submit(one, "a"), submit(other, "a"), submit(other, "b")
				if err := refused(); !errors.Is(err, raysys.ErrNameTaken) {
					t.Errorf("another one while it runs: %v", err)
				}
				k.Advance(time.Minute)
				must(t, errors.Join(first(), joins(), submit(other, "a")(), submit(one, "a")()))
				want(t, "slow job", "x")
				last := submit(one, "b")
				k.Advance(time.Minute)
				must(t, last())
				want(t, "slow job", "x", "x")
			}, opts...)
		})
	}
}
