package chaos

import (
	"context"
	"fmt"
	"sync"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/testkit"
)

// register is a number in grains.State, written before the reply.
type register struct {
	n    grains.State[int]
	life *testkit.Activation
}

// registers are counters and registers in grains.State. Each history is linearizable, so that no acknowledged write is
// lost and none is made twice, and no two activations commit side by side.
func registers(tb *raysys.Table) workload {
	const name, keys, perNode = "registers", 12, 3
	// The check of a history is exponential in its open calls: a key that has too many gets a successor.
	const maxOpen = 6
	lives := testkit.NewActivations("chaos.registers")
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
	history := testkit.NewHistory()
	var mu sync.Mutex // guards the rest
	open, generation := map[string]int{}, map[int]int{}
	keyOf := func(i int) string {
		mu.Lock()
		defer mu.Unlock()
		for {
			key := fmt.Sprintf("%d.%d", i, generation[i])
			if open[key] < maxOpen {
				return key
			}
			generation[i]++
		}
	}
	ask := func(c *client, ctx context.Context, key string, do any) (int, error) {
		op := history.Begin(c.number, key, do)
		var n int
		var err error
		switch do := do.(type) {
		case testkit.Add:
			n, err = add.Call(ctx, kind.Get(key), int(do)).Get(ctx)
		case testkit.Set:
			n, err = set.Call(ctx, kind.Get(key), int(do)).Get(ctx)
		case testkit.Read:
			n, err = read.Call(ctx, kind.Get(key)).Get(ctx)
		}
		op.End(n, err)
		if _, reads := do.(testkit.Read); err != nil && !reads && !testkit.NotDone(err) {
			mu.Lock()
			open[key]++
			mu.Unlock()
		}
		return n, err
	}
	return workload{
		name: name,
		start: func(r *round) {
			r.clients(name, perNode*(r.on.Size()+1), thinkTime, func(c *client, ctx context.Context) {
				key := keyOf(c.rng.IntN(keys))
				var do any = testkit.Read{}
				switch d := c.rng.IntN(8); {
				case d < 4:
					do = testkit.Add(1 + c.rng.IntN(9))
				case d == 4:
					do = testkit.Set(c.rng.IntN(1000))
				}
				a := c.begin(ctx, "%T on register %s", do, key)
				_, err := ask(c, ctx, key, do)
				a.end(err, grains.ErrETag)
			})
		},
		end: func(r *round) {
			// What was acknowledged and is lost shows when every register is read.
			c := &client{round: r, workload: name, number: 1 << 20}
			ctx, cancel := context.WithTimeout(r.on.Node(0).Context(context.Background()), patience)
			defer cancel()
			for i := range keys {
				for g := range generation[i] + 1 {
					key := fmt.Sprintf("%d.%d", i, g)
					a := c.begin(ctx, "the last read of register %s", key)
					_, err := ask(c, ctx, key, testkit.Read{})
					a.end(err)
				}
			}
			testkit.Linearizable(failing{r.t, r, name, "linearizable: no acknowledged write is lost, none is made twice"}, history, testkit.Register())
			testkit.SingleActivation(failing{r.t, r, name, "one activation: two of a grain never both commit"}, lives)
		},
	}
}
