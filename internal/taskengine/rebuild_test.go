package taskengine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
	"weak"

	"pgregory.net/rapid"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// careless is an object store that loses what it is told to lose.
type careless struct{}

func (careless) Keep(*core.Future, any) (bool, error) { return true, nil }
func (careless) Drop(*core.Future)                    {}

// gone is the source of a value that was lost.
type gone struct{ id raysys.TaskID }

func (g *gone) Name() string                  { return "lost object" }
func (g *gone) ID() raysys.TaskID             { return g.id }
func (g *gone) Cancelled()                    {}
func (g *gone) Fetch(_ any, done func(error)) { done(fmt.Errorf("%w: dropped", raysys.ErrObjectLost)) }

// loseObject loses the object behind r, wherever it is by now.
func loseObject(t rapid.TB, r raysys.Ref[bulky]) {
	t.Helper()
	c := core.FutureOf(r.Link)
	for core.HeldBy(core.SourceOf(c)) != nil {
		c = core.HeldBy(core.SourceOf(c))
	}
	if !c.Evict(&gone{c.ID()}) {
		t.Fatalf("%v is no object that can be lost", r)
	}
}

// bulky is a result that is an object.
type bulky []byte

func newBulky(n int) bulky {
	b := make(bulky, raysys.ObjectSize+1024)
	b[0], b[1] = byte(n), byte(n>>8)
	return b
}

func (b bulky) n() int {
	if len(b) < 2 {
		return -1
	}
	return int(b[0]) | int(b[1])<<8
}

// chained is the argument of a task in a chain.
type chained struct {
	N    int
	Last raysys.Ref[bulky]
}

// shop is a node that loses objects, with tasks that count how often they ran.
type shop struct {
	n     *system.Node
	ctx   context.Context
	table *raysys.Table
	first tasks.Task[int, bulky]
	next  tasks.Task[chained, bulky]     // by a reference in the argument
	after tasks.Task2[int, bulky, bulky] // by reference
	fails func(ctx context.Context, n int) error

	mu  sync.Mutex // guards ran
	ran map[int]int
}

// count says that task n runs.
func (s *shop) count(ctx context.Context, n int) error {
	s.mu.Lock()
	s.ran[n]++
	fails := s.fails
	s.mu.Unlock()
	if fails != nil {
		return fails(ctx, n)
	}
	return nil
}

func (s *shop) failWith(f func(ctx context.Context, n int) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = f
}

// runs says how often task n ran, and all runs how often all together.
func (s *shop) runs(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ran[n]
}

func (s *shop) allRuns() (all int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.ran {
		all += n
	}
	return all
}

// newShop starts the node. Task n of a chain gives n, and fails unless its input is n-1.
func newShop(t testing.TB, change ...func(*system.Config)) *shop {
	t.Helper()
	s := &shop{table: raysys.NewTable(), ran: map[int]int{}}
	check := func(n int, last bulky) error {
		if last.n() != n-1 {
			return fmt.Errorf("task %d got the value %d", n, last.n())
		}
		return nil
	}
	s.first = tasks.DefineIn(s.table, "first", func(ctx context.Context, n int) (bulky, error) {
		return newBulky(n), s.count(ctx, n)
	})
	s.next = tasks.DefineIn(s.table, "next", func(ctx context.Context, x chained) (bulky, error) {
		if err := s.count(ctx, x.N); err != nil {
			return nil, err
		}
		last, err := x.Last.Get(ctx)
		return newBulky(x.N), errors.Join(err, check(x.N, last))
	})
	s.after = tasks.Define2In(s.table, "after", func(ctx context.Context, n int, last bulky) (bulky, error) {
		return newBulky(n), errors.Join(s.count(ctx, n), check(n, last))
	})
	cfg := system.Config{Table: s.table, Resources: raysys.Resources{CPU: 2}}
	for _, f := range change {
		f(&cfg)
	}
	s.n, s.ctx = nodetest.Start(t, cfg)
	turn, _, err := core.TurnOf(s.ctx)
	if err != nil {
		t.Fatal(err)
	}
	turn.Job().Objects = careless{}
	return s
}

// chain submits tasks 0 to n, each of which needs the last one's value, and waits for them. byRef says how.
func (s *shop) chain(t rapid.TB, n int, byRef func(i int) bool) []raysys.Ref[bulky] {
	t.Helper()
	refs := []raysys.Ref[bulky]{s.first.Go(s.ctx, 0)}
	for i := 1; i <= n; i++ {
		if byRef(i) {
			refs = append(refs, s.after.On(s.ctx, raysys.Ready(i), refs[i-1]))
		} else {
			refs = append(refs, s.next.Go(s.ctx, chained{i, refs[i-1]}))
		}
	}
	for i, r := range refs {
		s.want(t, r, i)
	}
	return refs
}

func (s *shop) want(t rapid.TB, r raysys.Ref[bulky], n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, nodetest.Patience)
	defer cancel()
	if v, err := r.Get(ctx); err != nil || v.n() != n {
		t.Fatalf("task %d: got %d, %v: a lost object is made again, as it was", n, v.n(), err)
	}
}

func (s *shop) wantLost(t testing.TB, r raysys.Ref[bulky], says ...string) {
	t.Helper()
	v, err := nodetest.Get(t, s.ctx, r)
	if !errors.Is(err, raysys.ErrObjectLost) {
		t.Fatalf("got %d, %v; want ErrObjectLost", v.n(), err)
	}
	for _, part := range says {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

func always(int) bool { return true }
func never(int) bool  { return false }

// TestRebuildOne: a lost object is made again, each time it is lost, with the same id, the next attempt and the same
// random numbers.
func TestRebuildOne(t *testing.T) {
	type seen struct {
		id      raysys.TaskID
		attempt int
		rnd     uint64
	}
	var all []seen
	s := newShop(t)
	s.fails = func(ctx context.Context, _ int) error {
		turn, _, _ := core.TurnOf(ctx)
		all = append(all, seen{turn.ID(), turn.Attempt(), raysys.Rand(ctx).Uint64()})
		return nil
	}
	r := s.first.Go(s.ctx, 7)
	for i := range 4 {
		s.want(t, r, 7)
		if len(all) != i+1 {
			t.Fatalf("%d runs after %d losses: one for each", len(all), i)
		}
		if got := all[i]; got.id != r.ID() || got.rnd != all[0].rnd || got.attempt != i+1 {
			t.Fatalf("run %d was %+v, the first %+v: a rebuild has the id and the numbers of the first run, and the next attempt", i, got, all[0])
		}
		loseObject(t, r)
	}
}

// TestRebuildChain: of a chain of tasks whose objects are lost at random, each is made again once, when it is needed.
func TestRebuildChain(t *testing.T) {
	s := newShop(t)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 50).Draw(t, "depth")
		kinds := rapid.SliceOfN(rapid.Bool(), n+1, n+1).Draw(t, "by reference")
		lost := rapid.SliceOfN(rapid.Bool(), n+1, n+1).Draw(t, "lost")
		s.mu.Lock()
		clear(s.ran)
		s.mu.Unlock()
		refs := s.chain(t, n, func(i int) bool { return kinds[i] })
		if all := s.allRuns(); all != n+1 {
			t.Fatalf("%d runs of %d tasks", all, n+1)
		}
		want := 0
		for i, r := range refs {
			if lost[i] {
				loseObject(t, r)
			}
		}
		for i := n; i >= 0 && lost[i]; i-- {
			want++
		}
		s.want(t, refs[n], n)
		if got := s.allRuns() - n - 1; got != want {
			t.Fatalf("%d tasks ran again for the last value; want %d: only ancestors whose values are missing", got, want)
		}
		for i, r := range refs {
			s.want(t, r, i)
		}
		for i := range refs {
			want := 1
			if lost[i] {
				want = 2
			}
			if got := s.runs(i); got != want {
				t.Fatalf("task %d ran %d times, want %d: each lost value is made again once", i, got, want)
			}
		}
	})
}

// collect drops refs and waits until the collector has found their futures.
func collect(t testing.TB, refs []raysys.Ref[bulky]) {
	t.Helper()
	var weaks []weak.Pointer[core.Future]
	for i := range refs {
		weaks = append(weaks, weak.Make(core.FutureOf(refs[i].Link)))
		refs[i] = raysys.Ref[bulky]{}
	}
	nodetest.EventuallyGC(t, "dropped futures are collected", func() bool {
		for _, w := range weaks {
			if w.Value() != nil {
				return false
			}
		}
		return true
	})
}

// TestRebuildCollected: values that the program has dropped, but that a lost value was made of, are made again; from the
// nearest one on that is still there.
func TestRebuildCollected(t *testing.T) {
	for name, byRef := range map[string]func(int) bool{"in the argument": never, "by reference": always} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t)
			refs := s.chain(t, 9, byRef)
			collect(t, refs[5:9])
			collect(t, refs[:3])
			loseObject(t, refs[9])
			s.want(t, refs[9], 9)
			for i := range 10 {
				want := 1
				if i >= 5 {
					want = 2
				}
				if got := s.runs(i); got != want {
					t.Errorf("task %d ran %d times, want %d: tasks 5 to 8 were dropped and 9 was lost, 4 is there", i, got, want)
				}
			}
			loseObject(t, refs[3]) // two ancestors of which are gone
			s.want(t, refs[3], 3)
			if a, b := s.runs(0), s.runs(3); a != 2 || b != 2 {
				t.Errorf("task 0 ran %d times and task 3 %d times, want 2 and 2", a, b)
			}
		})
	}
}

// TestRebuildReleasedSmall: a small input that the program has released serves a rebuild all the same, and goes with the
// recipe.
func TestRebuildReleasedSmall(t *testing.T) {
	s := newShop(t)
	for name, refer := range map[string]func(small raysys.Ref[bulky]) raysys.Ref[bulky]{
		"in the argument": func(small raysys.Ref[bulky]) raysys.Ref[bulky] { return s.next.Go(s.ctx, chained{1, small}) },
		"by reference":    func(small raysys.Ref[bulky]) raysys.Ref[bulky] { return s.after.On(s.ctx, raysys.Ready(1), small) },
	} {
		small := raysys.Put(s.ctx, newBulky(0)[:2])
		refs := []raysys.Ref[bulky]{refer(small)}
		s.want(t, refs[0], 1)
		small.Release()
		loseObject(t, refs[0])
		s.want(t, refs[0], 1)
		if _, err := small.Get(s.ctx); !errors.Is(err, raysys.ErrReleased) {
			t.Errorf("%s: the released reference gives %v", name, err)
		}
		kept := core.FutureOf(small.Link)
		if err := kept.Pin(); err != nil {
			t.Errorf("%s: %v, while the recipe needs the value", name, err)
		} else {
			kept.Unpin()
		}
		collect(t, refs)
		nodetest.EventuallyGC(t, "the released value goes with the recipe", func() bool {
			err := kept.Pin()
			if err == nil {
				kept.Unpin()
			}
			return err != nil
		})
	}
}

// TestRebuildReleased: an input that the program has released is made again for the value that needs it, and for it
// alone.
func TestRebuildReleased(t *testing.T) {
	s := newShop(t)
	refs := s.chain(t, 2, func(i int) bool { return i == 1 })
	refs[0].Release()
	refs[1].Release()
	loseObject(t, refs[2])
	s.want(t, refs[2], 2)
	if got := s.allRuns(); got != 6 {
		t.Errorf("%d runs, want 6: the three tasks once more", got)
	}
	if _, err := refs[1].Get(s.ctx); !errors.Is(err, raysys.ErrReleased) {
		t.Errorf("the released reference gives %v", err)
	}
}

// TestRebuildShared: an ancestor that several lost values need, and that is gone, is made again once.
func TestRebuildShared(t *testing.T) {
	s := newShop(t)
	root := []raysys.Ref[bulky]{s.first.Go(s.ctx, 0)}
	leaves := make([]raysys.Ref[bulky], 8)
	for i := range leaves {
		leaves[i] = s.next.Go(s.ctx, chained{1, root[0]})
	}
	for _, r := range leaves {
		s.want(t, r, 1)
	}
	collect(t, root)
	open := make(chan struct{})
	s.failWith(func(_ context.Context, n int) error {
		if n == 0 {
			<-open
		}
		return nil
	})
	var all sync.WaitGroup
	for _, r := range leaves {
		loseObject(t, r)
	}
	for _, r := range leaves {
		all.Go(func() {
			if v, err := nodetest.Get(t, s.ctx, r); err != nil || v.n() != 1 {
				t.Errorf("got %d, %v", v.n(), err)
			}
		})
	}
	nodetest.Eventually(t, "the ancestor runs again", func() bool { return s.runs(0) == 2 })
	close(open)
	all.Wait()
	if a, b := s.runs(0), s.runs(1); a != 2 || b != 16 {
		t.Errorf("the ancestor ran %d times and the leaves %d, want 2 and 16: each missing ancestor once, however many wait", a, b)
	}
}

// TestRebuildDeep: a long chain of lost objects is made again, on a node with two CPUs: those whose futures live, each of
// which waits for the next, and those that were dropped.
func TestRebuildDeep(t *testing.T) {
	const depth = 1000
	for name, drop := range map[string]bool{"held": false, "dropped": true} {
		for how, byRef := range map[string]func(int) bool{"in the argument": never, "by reference": always} {
			t.Run(name+", "+how, func(t *testing.T) {
				s := newShop(t)
				refs := s.chain(t, depth, byRef)
				if drop {
					collect(t, refs[:depth])
					loseObject(t, refs[depth])
				} else {
					for _, r := range refs {
						loseObject(t, r)
					}
				}
				s.want(t, refs[depth], depth)
				if got := s.allRuns(); got != 2*(depth+1) {
					t.Errorf("%d runs, want %d: each task once more", got, 2*(depth+1))
				}
			})
		}
	}
}

// TestRebuildPut: an object of Put is an input while the program keeps it, and is not made again.
func TestRebuildPut(t *testing.T) {
	s := newShop(t)
	put := []raysys.Ref[bulky]{raysys.Put(s.ctx, newBulky(0))}
	r := s.next.Go(s.ctx, chained{1, put[0]})
	s.want(t, r, 1)
	loseObject(t, r)
	s.want(t, r, 1)
	collect(t, put)
	loseObject(t, r)
	s.wantLost(t, r, "the result of next cannot be made again", "object, which it needs, was released")
	again := raysys.Put(s.ctx, newBulky(0))
	loseObject(t, again)
	s.wantLost(t, again)
}

// TestRebuildRetries: each rebuild has all the attempts that Retries gives.
func TestRebuildRetries(t *testing.T) {
	s := newShop(t)
	failures := 2
	s.failWith(func(context.Context, int) error {
		if failures--; failures >= 0 {
			return errBoom
		}
		return nil
	})
	r := s.first.With(raysys.Retries(2), raysys.RetryIf(func(error) bool { return true }), raysys.Backoff(1, 1)).Go(s.ctx, 1)
	for i := range 4 {
		s.want(t, r, 1)
		if got := s.runs(1); got != 3*(i+1) {
			t.Fatalf("%d runs after %d losses, want %d: two retries each time", got, i, 3*(i+1))
		}
		failures = 2
		loseObject(t, r)
	}
	failures = 3
	s.wantLost(t, r, "boom")
}

// TestRebuildFails: what fails a rebuild is told, with the functions between, and stays.
func TestRebuildFails(t *testing.T) {
	s := newShop(t)
	refs := s.chain(t, 3, never)
	s.failWith(func(_ context.Context, n int) error {
		if n == 1 {
			return errBoom
		}
		return nil
	})
	for _, r := range refs {
		loseObject(t, r)
	}
	s.wantLost(t, refs[3], "the result of next, which needs that of next, which needs that of next, cannot be made again", "boom")
	before := s.allRuns()
	s.wantLost(t, refs[3], "boom")
	if got := s.allRuns(); got != before {
		t.Errorf("%d further runs: a rebuild that failed stays", got-before)
	}
	if p := raysys.PhaseOf(refs[3]); p != raysys.PhaseLost {
		t.Errorf("phase %v, want lost", p)
	}
	s.want(t, refs[0], 0)
}

// TestRebuildLater: a rebuild that failed for a reason that passes is made again by the next reader: the value is not lost.
func TestRebuildLater(t *testing.T) {
	s := newShop(t)
	refs := s.chain(t, 2, never)
	away := true
	s.failWith(func(_ context.Context, n int) error {
		if n == 1 && away {
			return fmt.Errorf("read what it needs: %w", raysys.ErrUnreachable)
		}
		return nil
	})
	for _, r := range refs {
		loseObject(t, r)
	}
	for range 2 {
		_, err := nodetest.Get(t, s.ctx, refs[2])
		if !errors.Is(err, raysys.ErrUnreachable) || errors.Is(err, raysys.ErrObjectLost) {
			t.Fatalf("while a node cannot be reached: %v, want ErrUnreachable alone: its submitter lives, and nothing is lost", err)
		}
	}
	away = false
	s.want(t, refs[2], 2)
}

// TestRebuildSmall: a function that gives a small value the second time gives that.
func TestRebuildSmall(t *testing.T) {
	table := raysys.NewTable()
	runs := 0
	vary := tasks.Define0In(table, "vary", func(context.Context) (bulky, error) {
		if runs++; runs == 1 {
			return newBulky(1), nil
		}
		return bulky{byte(runs), 0}, nil
	})
	_, ctx := nodetest.Start(t, system.Config{Table: table})
	turn, _, _ := core.TurnOf(ctx)
	turn.Job().Objects = careless{}
	r := vary.Go(ctx)
	if v, err := nodetest.Get(t, ctx, r); err != nil || v.n() != 1 {
		t.Fatal(v.n(), err)
	}
	loseObject(t, r)
	for range 2 {
		if v, err := nodetest.Get(t, ctx, r); err != nil || v.n() != 2 {
			t.Fatalf("got %d, %v; want the value of the second run", v.n(), err)
		}
	}
}

// TestRebuildWaiters: a caller that leaves does not end a rebuild, and the deadline of the task counts anew.
func TestRebuildWaiters(t *testing.T) {
	s := newShop(t)
	r := s.first.With(raysys.Deadline(nodetest.Patience), raysys.Detached()).Go(s.ctx, 1)
	s.want(t, r, 1)
	began, open := make(chan struct{}), make(chan struct{})
	s.failWith(func(ctx context.Context, _ int) error {
		at, ok := ctx.Deadline()
		if !ok || time.Until(at) > nodetest.Patience || time.Until(at) < nodetest.Patience/2 {
			t.Errorf("deadline %v, %v: it counts anew for a rebuild", at, ok)
		}
		close(began)
		<-open
		return nil
	})
	loseObject(t, r)
	ctx, cancel := context.WithCancel(s.ctx)
	left := make(chan error)
	go func() {
		_, err := r.Get(ctx)
		left <- err
	}()
	nodetest.Arrive(t, began, "the rebuild runs")
	cancel()
	if err := nodetest.Arrive(t, left, "the caller leaves"); !errors.Is(err, raysys.ErrCancelled) {
		t.Errorf("the caller that left got %v", err)
	}
	close(open)
	s.want(t, r, 1)
	if got := s.runs(1); got != 2 {
		t.Errorf("%d runs, want 2: others have what the caller asked for that left", got)
	}
}

// TestLineageMemory: beyond the budget the oldest recipes go, and say so; recipes whose values nobody can ask for give
// their bytes back.
func TestLineageMemory(t *testing.T) {
	s := newShop(t, func(c *system.Config) { c.LineageMemory = 20 << 10 })
	var refs []raysys.Ref[bulky]
	for i := range 100 {
		refs = append(refs, s.first.Go(s.ctx, i))
		s.want(t, refs[i], i)
	}
	e := engineOf(s.n)
	if got := e.RecipeBytes(); got > 20<<10 || got < 10<<10 {
		t.Errorf("recipes take %d bytes, want most of 20 KiB", got)
	}
	for _, r := range refs {
		loseObject(t, r)
	}
	s.wantLost(t, refs[0], "LineageMemory")
	s.want(t, refs[99], 99)
	collect(t, refs)
	nodetest.EventuallyGC(t, "the recipes of collected futures give their bytes back", func() bool { return e.RecipeBytes() == 0 })
	r := s.first.Go(s.ctx, 1)
	s.want(t, r, 1)
	loseObject(t, r)
	s.want(t, r, 1)
}

// TestLineageOff: without lineage nothing is kept, and the error says so.
func TestLineageOff(t *testing.T) {
	s := newShop(t, func(c *system.Config) { c.Lineage = system.LineageOff })
	r := s.first.Go(s.ctx, 1)
	s.want(t, r, 1)
	loseObject(t, r)
	s.wantLost(t, r, "Config.Lineage is off")
}
