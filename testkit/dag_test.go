package testkit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// A dag is a random program: tasks that use the results of earlier ones, with what each comes to. Its tasks are 0, 1, 2, ...;
// the tasks that task i submits are kidOf(i, 0), kidOf(i, 1), ...
type dag []dagTask

type dagTask struct {
	order
	in []int // earlier tasks, whose references are in the argument
	on []int // one whose value is an argument; or none
}

// order is the argument of a task.
type order struct {
	Self kid
	Pad  []byte // of the argument
	In   []raysys.Ref[piece]
	Deep bool  // it reads what the values refer to as well
	Give []int // those of In that the result refers to
	Kids []kid // tasks that it submits
	Keep bool  // the result refers to these, which are not waited for; else their values are used
}

// kid is the argument of a task that a task submits.
type kid struct {
	ID    int
	Rest  time.Duration // how long it takes
	Large bool          // the result is an object
}

// piece is the result of a task.
type piece struct {
	N   uint64 // follows from the program alone
	Run int64  // the execution that it comes from
	Pad []byte
	Of  []raysys.Handle[piece]
}

const dagKids = 3

func kidOf(i, k int) int { return 1000 + i*dagKids + k }

// value is what a piece must be.
type value struct {
	n  uint64
	of []int // the tasks that it refers to
}

// values computes what all tasks of the dag come to.
func (d dag) values() map[int]value {
	all := map[int]value{}
	for i, t := range d {
		v := value{n: first(t.Self.ID, t.Pad)}
		for _, j := range slices.Concat(t.on, t.in) {
			v.n = mix(v.n, all[j].n)
			for _, k := range all[j].of {
				if t.Deep {
					v.n = mix(v.n, all[k].n)
				}
			}
		}
		for _, k := range t.Kids {
			all[k.ID] = value{n: first(k.ID, nil)}
			if t.Keep {
				v.of = append(v.of, k.ID)
			} else {
				v.n = mix(v.n, all[k.ID].n)
			}
		}
		for _, g := range t.Give {
			v.of = append(v.of, t.in[g])
		}
		all[i] = v
	}
	return all
}

func first(id int, pad []byte) uint64 { return mix(uint64(id), uint64(len(pad))) }
func mix(a, b uint64) uint64          { return (a ^ b<<7 ^ b>>9) * 0x9e3779b97f4a7c15 }
func (v piece) sound() bool {
	return !slices.ContainsFunc(v.Pad, func(b byte) bool { return b != byte(v.N) })
}
func (t dagTask) local() bool { return len(t.Kids) > 0 && t.Keep }

// drawDag draws a program. Each task takes up to rest.
func drawDag(rt *rapid.T, rest time.Duration) dag {
	takes := rapid.Custom(func(rt *rapid.T) time.Duration {
		return time.Duration(rapid.Int64Range(0, int64(rest)).Draw(rt, "takes"))
	})
	large := rapid.SampledFrom([]bool{true, true, false})
	d := make(dag, rapid.IntRange(3, 14).Draw(rt, "tasks"))
	for i := range d {
		t := &d[i]
		t.Self = kid{i, takes.Draw(rt, "rest"), large.Draw(rt, "large")}
		t.Deep = rapid.Bool().Draw(rt, "deep")
		if rapid.IntRange(0, 7).Draw(rt, "wide") == 0 {
			t.Pad = make([]byte, raysys.ObjectSize+100)
		}
		if i > 0 {
			earlier := rapid.IntRange(max(0, i-6), i-1)
			t.in = rapid.SliceOfNDistinct(earlier, 0, min(i, 3), rapid.ID).Draw(rt, "in")
			if rapid.IntRange(0, 2).Draw(rt, "by value") == 0 {
				t.on = []int{earlier.Draw(rt, "on")}
			}
		}
		for g := range t.in {
			if rapid.IntRange(0, 3).Draw(rt, "gives") == 0 {
				t.Give = append(t.Give, g)
			}
		}
		if rapid.IntRange(0, 2).Draw(rt, "submits") == 0 {
			for k := range rapid.IntRange(1, dagKids).Draw(rt, "kids") {
				t.Kids = append(t.Kids, kid{kidOf(i, k), takes.Draw(rt, "rest"), large.Draw(rt, "large")})
			}
			t.Keep = rapid.Bool().Draw(rt, "keep")
		}
	}
	return d
}

// dags runs programs on a cluster, and counts the executions of tasks.
type dags struct {
	table *raysys.Table
	task  tasks.Task[order, piece]
	kid   tasks.Task[kid, piece]
	join  tasks.Task2[order, piece, piece]
	last  atomic.Int64 // Run

	mu  sync.Mutex // guards ran
	ran map[int][]raysys.NodeID
}

func newDags() *dags {
	p := &dags{table: raysys.NewTable(), ran: map[int][]raysys.NodeID{}}
	p.task = tasks.DefineIn(p.table, "task", func(ctx context.Context, o order) (piece, error) { return p.work(ctx, o) })
	p.kid = tasks.DefineIn(p.table, "kid", func(ctx context.Context, k kid) (piece, error) { return p.work(ctx, order{Self: k}) })
	p.join = tasks.Define2In(p.table, "join", func(ctx context.Context, o order, v piece) (piece, error) { return p.work(ctx, o, v) })
	return p
}

// work is the function of all tasks.
func (p *dags) work(ctx context.Context, o order, values ...piece) (piece, error) {
	turn, _, err := core.TurnOf(ctx)
	if err != nil {
		return piece{}, err
	}
	p.mu.Lock()
	p.ran[o.Self.ID] = append(p.ran[o.Self.ID], turn.Job().Node)
	p.mu.Unlock()
	out := piece{N: first(o.Self.ID, o.Pad), Run: p.last.Add(1)}
	select {
	case <-time.After(o.Self.Rest):
	case <-ctx.Done():
		return piece{}, context.Cause(ctx)
	}
	var kids []raysys.Ref[piece]
	for _, k := range o.Kids {
		kids = append(kids, p.kid.With(raysys.Retries(100)).Go(ctx, k))
	}
	for _, r := range o.In {
		v, err := r.Get(ctx)
		if err != nil {
			return piece{}, err
		}
		values = append(values, v)
	}
	for _, v := range values {
		out.N = mix(out.N, v.N)
		for _, h := range v.Of {
			if o.Deep {
				v, err := h.Ref().Get(ctx)
				if err != nil {
					return piece{}, err
				}
				out.N = mix(out.N, v.N)
			}
		}
	}
	for _, r := range kids {
		if o.Keep {
			out.Of = append(out.Of, r.Handle())
			continue
		}
		v, err := r.Get(ctx)
		if err != nil {
			return piece{}, err
		}
		out.N = mix(out.N, v.N)
	}
	for _, g := range o.Give {
		out.Of = append(out.Of, o.In[g].Handle())
	}
	if o.Self.Large {
		out.Pad = slices.Repeat([]byte{byte(out.N)}, raysys.ObjectSize+1000)
	}
	return out, nil
}

// submit submits a program. A task whose result refers to tasks of its own runs on n1, which is not killed: the node that
// submitted a task has its recipe.
func (p *dags) submit(ctx context.Context, d dag) []raysys.Ref[piece] {
	p.mu.Lock()
	clear(p.ran)
	p.mu.Unlock()
	refs := make([]raysys.Ref[piece], len(d))
	for i, t := range d {
		o := t.order
		for _, j := range t.in {
			o.In = append(o.In, refs[j])
		}
		opts := []raysys.Option{raysys.Retries(100)}
		if t.local() {
			opts = append(opts, raysys.Label("stays", "yes"))
		}
		if len(t.on) > 0 {
			refs[i] = p.join.With(opts...).On(ctx, raysys.Ready(o), refs[t.on[0]])
		} else {
			refs[i] = p.task.With(opts...).Go(ctx, o)
		}
	}
	return refs
}

// nodes is where a task ran.
func (p *dags) nodes(id int) []raysys.NodeID {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.ran[id])
}

// check fails the test unless r, the result of task id, has the value that it must have, twice, and so has what it refers
// to.
func (p *dags) check(rt *rapid.T, ctx context.Context, all map[int]value, id int, r raysys.Ref[piece]) {
	rt.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	v, err := r.Get(ctx)
	if err != nil {
		rt.Fatalf("task %d, which ran at %v: %v: nothing is lost while the node lives that submitted it", id, p.nodes(id), err)
	}
	want := all[id]
	if v.N != want.n || !v.sound() || len(v.Of) != len(want.of) {
		rt.Fatalf("task %d gives %d with %d bytes and %d references, want %d and %d references", id, v.N, len(v.Pad), len(v.Of), want.n, len(want.of))
	}
	if again, err := r.Get(ctx); err != nil || again.Run != v.Run {
		rt.Fatalf("task %d gives the value of execution %d and then that of %d, %v: a future is resolved once", id, v.Run, again.Run, err)
	}
	for i, h := range v.Of {
		p.check(rt, ctx, all, want.of[i], h.Ref())
	}
}

// run runs f with four workers in virtual time, for drawn programs.
func (p *dags) run(t *testing.T, f func(rt *rapid.T, k *testkit.Kit)) {
	t.Helper()
	drawsOfForm(t, 6, 200)
	testkit.Virtual(t, func(k *testkit.Kit) {
		rapid.Check(timeless{k.T()}, func(rt *rapid.T) { f(rt, k) })
	}, seedOfForm(), testkit.Table(p.table), testkit.Nodes(4), testkit.CPU(2), testkit.Each(func(i int, cfg *system.Config) {
		if i == 1 {
			cfg.Cluster.Labels = map[string]string{"stays": "yes"}
		}
	}))
}

// timeless is a test in virtual time, where asking for the deadline panics.
type timeless struct{ testing.TB }

func (timeless) Deadline() (time.Time, bool) { return time.Time{}, false }

// TestLineageFewest: of a random program whose results have settled some workers are killed. All values can be read, and of
// the tasks only those run again, once, whose objects the dead had and that are needed: for what is read, or to make such
// an object again.
func TestLineageFewest(t *testing.T) {
	p := newDags()
	p.run(t, func(rt *rapid.T, k *testkit.Kit) {
		ctx, c := k.Context(), k.Cluster()
		d := drawDag(rt, 20*time.Millisecond)
		all := d.values()
		refs := p.submit(ctx, d)
		if _, rest, err := raysys.Wait(ctx, refs, len(refs)); err != nil || len(rest) > 0 {
			rt.Fatalf("%d tasks are open, %v", len(rest), err)
		}
		const (
			left     = iota // as it is
			read            // by the driver, which has the value then
			unread          // not read after the kills either
			dropped         // which the collector finds
			released        // which no one may read any more
		)
		inner := map[int]bool{} // values refer to it, which a release would reach
		for _, v := range all {
			for _, i := range v.of {
				inner[i] = true
			}
		}
		for _, t := range d {
			for _, i := range t.in {
				inner[i] = inner[i] || len(t.on) > 0
			}
		}
		states := make([]int, len(d))
		for i, r := range refs {
			switch states[i] = rapid.SampledFrom([]int{left, left, left, read, unread, dropped, released}).Draw(rt, "state"); {
			case states[i] == read:
				p.check(rt, ctx, all, i, r)
			case states[i] == released && !inner[i]:
				r.Release()
			case states[i] >= dropped:
				states[i], refs[i] = dropped, raysys.Ref[piece]{}
			}
		}
		k.Advance(time.Second) // the tasks that no other waits for have ended
		dead := map[raysys.NodeID]bool{}
		killed := rapid.SliceOfNDistinct(rapid.IntRange(2, 4), 1, 3, rapid.ID).Draw(rt, "killed")
		for _, i := range killed {
			c.Kill(i)
			dead[c.Name(i)] = true
		}
		ran := map[int]raysys.NodeID{} // where each task ran before
		for id := range all {
			at := p.nodes(id)
			if len(at) > 1 || len(at) == 0 && id < len(d) { // one that no one wants any more need not run
				rt.Fatalf("task %d ran at %v before the kills, want once", id, at)
			}
			if len(at) > 0 {
				ran[id] = at[0]
			}
		}
		for i, r := range refs {
			if states[i] == left || states[i] == read {
				p.check(rt, ctx, all, i, r)
			}
		}
		again := d.again(all, func(i int) bool { // whether the value of task i may be missing
			if !d[i].Self.Large {
				return false
			}
			return states[i] >= dropped || dead[ran[i]] && states[i] != read
		}, func(i int) bool { return states[i] == left || states[i] == read })
		for i, t := range d {
			if runs := p.nodes(i); len(runs) > 1+again[i] {
				rt.Fatalf("task %d ran at %v, want %d times: %v are dead, and what is there is not made again, nor is what no one needs", i, runs, 1+again[i], dead)
			}
			for _, k := range t.Kids {
				most := 1 + again[i]
				if k.Large && t.Keep && dead[ran[k.ID]] {
					most++
				}
				if runs := p.nodes(k.ID); len(runs) > most {
					rt.Fatalf("task %d of task %d ran at %v, want %d times: %v are dead", k.ID, i, runs, most, dead)
				}
			}
		}
		for _, i := range killed {
			c.Restart(i)
		}
		c.Ready()
	})
}

// again says how often each task may run again when the values of some are missing and some are read.
func (d dag) again(all map[int]value, missing, read func(int) bool) map[int]int {
	n := map[int]int{}
	seen := map[int]bool{}
	var need func(i int)
	need = func(i int) {
		if i >= len(d) || seen[i] { // a task of a task, or known
			return
		}
		seen[i] = true
		if missing(i) {
			n[i] = 1
			for _, j := range slices.Concat(d[i].in, d[i].on) {
				need(j)
			}
		}
		for _, j := range all[i].of { // those who read it may read these
			need(j)
		}
	}
	for i := range d {
		if read(i) {
			need(i)
		}
	}
	return n
}

// TestLineageKills: workers are killed at random moments while a random program runs, and while lost objects are made
// again. Each value is right, once.
func TestLineageKills(t *testing.T) {
	p := newDags()
	p.run(t, func(rt *rapid.T, k *testkit.Kit) {
		ctx := k.Context()
		d := drawDag(rt, 60*time.Millisecond)
		all := d.values()
		var plan testkit.Plan
		for range rapid.IntRange(1, 8).Draw(rt, "kills") {
			plan = append(plan, testkit.Event{
				Fault: testkit.FaultKill, Nodes: []int{rapid.IntRange(2, 4).Draw(rt, "node")},
				At:  time.Duration(rapid.IntRange(0, 600).Draw(rt, "at")) * time.Millisecond,
				For: time.Duration(rapid.IntRange(0, 300).Draw(rt, "for")) * time.Millisecond,
			})
		}
		refs := p.submit(ctx, d)
		var readers sync.WaitGroup
		failed := make(chan error, len(refs))
		for i, r := range refs {
			if rapid.Bool().Draw(rt, "read at once") {
				readers.Go(func() {
					if v, err := r.Get(ctx); err != nil || v.N != all[i].n {
						failed <- fmt.Errorf("task %d, read during the kills, gives %d, %w, want %d", i, v.N, err, all[i].n)
					}
				})
			}
		}
		k.Cluster().Play(plan)
		readers.Wait()
		close(failed)
		var errs []error
		for err := range failed {
			errs = append(errs, err)
		}
		if err := errors.Join(errs...); err != nil {
			rt.Fatal(err)
		}
		for i, r := range refs {
			p.check(rt, ctx, all, i, r)
		}
		k.Cluster().Ready()
	})
}
