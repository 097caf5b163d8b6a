package chaos

import (
	"context"
	"fmt"
	"sync"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// register is a number in grains.State, written before the reply, and durable one whose turns are transactions.
type (
	register struct {
		n    grains.State[int]
		life *testkit.Activation
	}
	durable struct{ n grains.State[int] }
)

// registers are counters and registers in grains.State. Each history is linearizable, so that no acknowledged write is
// lost and none is made twice, and no two activations commit side by side.
func registers(tb *raysys.Table) workload {
	const recorder = "chaos.registers"
	lives := testkit.NewActivations(recorder)
	write := func(r *register, ctx context.Context, n int) (int, error) {
		if r.life == nil {
			r.life = lives.Begin(ctx)
		}
		r.n.Value = n
		err := r.n.Write(ctx)
		r.life.Committed(r.n.ETag(), err)
		return n, err
	}
	kind := grains.DefineIn[register](tb, "chaos.register")
	add := grains.Method(kind, "add", func(r *register, ctx context.Context, d int) (int, error) { return write(r, ctx, r.n.Value+d) })
	set := grains.Method(kind, "set", write)
	read := grains.Method0(kind, "read", func(r *register, _ context.Context) (int, error) { return r.n.Value, nil }).ReadOnly()
	clear := grains.Method0(kind, "clear", func(r *register, ctx context.Context) (bool, error) { return true, r.n.Clear(ctx) })
	w := histories("registers", func(ctx context.Context, key string, do any) (int, error) {
		switch do := do.(type) {
		case testkit.Add:
			return add.Call(ctx, kind.Get(key), int(do)).Get(ctx)
		case testkit.Set:
			return set.Call(ctx, kind.Get(key), int(do)).Get(ctx)
		case forget:
			_, err := clear.Call(ctx, kind.Get(key)).Get(ctx)
			return 0, err
		}
		return read.Call(ctx, kind.Get(key)).Get(ctx)
	})
	end := w.end
	w.end = func(r *round) {
		end(r)
		testkit.SingleActivation(failing{r.t, r, w.name, "one activation: two of a grain never both commit"}, r.on.Activations(recorder, lives))
	}
	return w
}

// addTo asks a task to add to a durable register.
type addTo struct {
	Key string
	N   int
}

// durables are registers of a grains.Durable kind, called by clients and by tasks. The runtime repeats a call whose way
// broke; the histories are linearizable all the same, so that no acknowledged call is lost and none counts twice.
func durables(tb *raysys.Table) workload {
	kind := grains.DefineIn[durable](tb, "chaos.durable", grains.Durable())
	add := grains.Method(kind, "add", func(d *durable, _ context.Context, n int) (int, error) {
		d.n.Value += n
		return d.n.Value, nil
	})
	set := grains.Method(kind, "set", func(d *durable, _ context.Context, n int) (int, error) {
		d.n.Value = n
		return n, nil
	})
	read := grains.Method0(kind, "read", func(d *durable, _ context.Context) (int, error) { return d.n.Value, nil }).ReadOnly()
	clear := grains.Method0(kind, "clear", func(d *durable, ctx context.Context) (bool, error) {
		d.n.Value = 0
		return true, nil
	})
	byTask := tasks.DefineIn(tb, "chaos.durable-add", func(ctx context.Context, a addTo) (int, error) {
		return add.Call(ctx, kind.Get(a.Key), a.N).Get(ctx)
	}).With(raysys.Retries(0))
	return histories("durables", func(ctx context.Context, key string, do any) (int, error) {
		switch do := do.(type) {
		case testkit.Add:
			if do%3 == 0 {
				return byTask.Go(ctx, addTo{key, int(do)}).Get(ctx)
			}
			return add.Call(ctx, kind.Get(key), int(do)).Get(ctx)
		case testkit.Set:
			return set.Call(ctx, kind.Get(key), int(do)).Get(ctx)
		case forget:
			_, err := clear.Call(ctx, kind.Get(key)).Get(ctx)
			return 0, err
		}
		return read.Call(ctx, kind.Get(key)).Get(ctx)
	})
}

// forget asks that nothing be stored of a register any more. It is no part of a history.
type forget struct{}

// volume is the history of one register, from its first call until a successor takes its place.
type volume struct {
	key               string
	history           *testkit.History
	calls, open, busy int // made, with an unknown outcome, on their way
}

const (
	// maxOpen bounds the open calls of a volume, in which its check is exponential.
	maxOpen = 6
	// maxCalls bounds a volume, so that a round of hours has histories of minutes.
	maxCalls = 2000
)

// histories is a workload of registers that ask calls. do is testkit.Add, Set or Read, or forget.
func histories(name string, ask func(ctx context.Context, key string, do any) (int, error)) workload {
	const keys, perNode = 12, 3
	var mu sync.Mutex // guards the rest, but for what is in a history
	made := 0
	current := make([]*volume, keys)
	var full []*volume // replaced, not checked yet
	// borrow is the volume of register i, with a call on its way.
	borrow := func(i int) *volume {
		mu.Lock()
		defer mu.Unlock()
		v := current[i]
		if v == nil || v.open >= maxOpen || v.calls >= maxCalls {
			if v != nil {
				full = append(full, v)
			}
			made++
			v = &volume{key: fmt.Sprintf("%d.%d", i, made), history: testkit.NewHistory()}
			current[i] = v
		}
		v.calls++
		v.busy++
		return v
	}
	call := func(c *client, ctx context.Context, v *volume, do any) error {
		op := v.history.Begin(c.number, v.key, do)
		n, err := ask(ctx, v.key, do)
		op.End(n, err)
		return err
	}
	// finish checks a volume that has no call on its way. What was acknowledged and is lost shows when it is read.
	finish := func(c *client, ctx context.Context, v *volume) bool {
		a := c.begin(ctx, "the last read of %s %s", name, v.key)
		err := call(c, ctx, v, testkit.Read{})
		a.end(err)
		if err != nil {
			return false
		}
		testkit.Linearizable(failing{c.t, c.round, name, "linearizable: no acknowledged write is lost, none is made twice"}, v.history, testkit.Register())
		a = c.begin(ctx, "clear %s %s", name, v.key)
		_, err = ask(ctx, v.key, forget{})
		a.end(err, grains.ErrETag)
		return true
	}
	return workload{
		name: name,
		start: func(r *round) {
			r.clients(name, perNode*(r.on.Size()+1), thinkTime, func(c *client, ctx context.Context) {
				var do any = testkit.Read{}
				v := borrow(c.rng.IntN(keys))
				switch d := c.rng.IntN(8); {
				case d < 4:
					do = testkit.Add(1 + c.rng.IntN(9))
				case d == 4:
					do = testkit.Set(c.rng.IntN(1000))
				}
				a := c.begin(ctx, "%T on %s %s", do, name, v.key)
				err := call(c, ctx, v, do)
				a.end(err, grains.ErrETag)
				_, reads := do.(testkit.Read)
				mu.Lock()
				v.busy--
				if err != nil && !reads && !testkit.NotDone(err) {
					v.open++
				}
				var last *volume
				if len(full) > 0 && full[0].busy == 0 {
					last, full = full[0], full[1:]
				}
				mu.Unlock()
				if last != nil && !finish(c, ctx, last) {
					mu.Lock()
					full = append(full, last)
					mu.Unlock()
				}
			})
		},
		end: func(r *round) {
			c := &client{round: r, workload: name, number: 1 << 20}
			for _, v := range append(full, current...) {
				if v != nil {
					ctx, cancel := context.WithTimeout(r.on.Node(0).Context(context.Background()), patience)
					finish(c, ctx, v)
					cancel()
				}
			}
		},
	}
}
