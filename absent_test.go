package raysys_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/tasks"
)

// attic is an object store that keeps whatever it is told of, and evicts when the test says so.
type attic struct {
	mu    sync.Mutex // guards the rest
	kept  map[*core.Future]int
	full  error
	names map[string]*core.Future
}

func newAttic(ctx context.Context) *attic {
	a := &attic{kept: map[*core.Future]int{}, names: map[string]*core.Future{}}
	t, _, _ := core.TurnOf(ctx)
	t.Job().Objects = a
	return a
}

func (a *attic) Keep(c *core.Future, v any) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.full != nil {
		return false, a.full
	}
	a.kept[c]++
	return true, nil
}

func (a *attic) Drop(c *core.Future) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.kept, c)
}

func (a *attic) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.kept)
}

// evict moves the value of a future to a shelf, and returns that; nil when it could not.
func (a *attic) evict(c *core.Future) *shelf {
	v, err := c.Outcome()
	if err != nil {
		return nil
	}
	s := &shelf{value: v}
	if !c.Evict(s) {
		return nil
	}
	return s
}

func futureOf[T any](r raysys.Ref[T]) *core.Future { return core.FutureOf(r.Link) }

// shelf is where the value of a future is while it is evicted.
type shelf struct {
	value   any // *wide or *[]byte
	fetches atomic.Int32
	fail    atomic.Pointer[error]
	gate    chan struct{} // nil, or closed when fetches may go on
	at      core.Source   // it is there instead
}

func (s *shelf) Name() string      { return "shelf" }
func (s *shelf) ID() raysys.TaskID { return raysys.TaskID{} }
func (s *shelf) Cancelled()        {}

func (s *shelf) Fetch(into any, done func(error)) {
	s.fetches.Add(1)
	give := func() {
		if s.gate != nil {
			<-s.gate
		}
		switch err := s.fail.Load(); {
		case err != nil:
			done(*err)
			return
		case s.at != nil:
			done(&core.Elsewhere{Source: s.at})
			return
		}
		switch to := into.(type) {
		case *wide:
			*to = *s.value.(*wide)
		case *[]byte:
			*to = *s.value.(*[]byte)
		}
		done(nil)
	}
	if s.gate == nil && s.fetches.Load()%2 == 0 {
		give() // at once, on the goroutine that asks
		return
	}
	go give()
}

// bench is what a test of absent values works with.
type bench struct {
	ctx  context.Context
	made tasks.Task[int, wide]
	use  tasks.Task[wide, bool]
	read tasks.Task[box, bool]
	both tasks.Task2[wide, wide, bool]
	tell grains.Func[clerk, wide, bool]
	desk grains.Grain[clerk]
	*attic
}

type box struct{ R raysys.Ref[wide] }

type clerk struct{ seen int }

func (c *clerk) File(_ context.Context, w wide) (bool, error) {
	c.seen++
	return w.whole(), nil
}

func newBench(t testing.TB) *bench {
	table := raysys.NewTable()
	b := &bench{}
	b.made = tasks.DefineIn(table, "make", func(_ context.Context, x int) (wide, error) { return newWide(x), nil })
	b.use = tasks.DefineIn(table, "use", func(_ context.Context, w wide) (bool, error) { return w.whole(), nil })
	b.both = tasks.Define2In(table, "both", func(_ context.Context, v, w wide) (bool, error) { return v.whole() && w.whole(), nil })
	b.read = tasks.DefineIn(table, "read", func(ctx context.Context, b box) (bool, error) {
		w, err := b.R.Get(ctx)
		return w.whole(), err
	})
	clerks := grains.DefineIn[clerk](table, "clerk")
	b.tell, b.desk = grains.Method(clerks, "file", (*clerk).File), clerks.Get("1")
	_, b.ctx = node(t, table)
	b.attic = newAttic(b.ctx)
	return b
}

// Whoever needs an absent value has it fetched, once for all who ask at a time; who asks only whether it is ready does
// not.
func TestAbsentValues(t *testing.T) {
	b := newBench(t)
	ok := func(v bool, err error) error {
		if err == nil && !v {
			err = errors.New("the value is torn")
		}
		return err
	}
	for name, c := range map[string]struct {
		read  func(r raysys.Ref[wide]) error
		fetch int32
	}{
		"Get": {func(r raysys.Ref[wide]) error {
			v, err := r.Get(b.ctx)
			return ok(v.whole(), err)
		}, 1},
		"GetAll": {func(r raysys.Ref[wide]) error {
			vs, err := raysys.GetAll(b.ctx, []raysys.Ref[wide]{r, r}).Values()
			return ok(err == nil && vs[0].whole() && vs[1].whole(), err)
		}, 1},
		"View": {func(r raysys.Ref[wide]) error {
			return raysys.View(b.ctx, r, func(w wide) error { return ok(w.whole(), nil) })
		}, 1},
		"On": {func(r raysys.Ref[wide]) error { return ok(nodetest.Get(t, b.ctx, b.use.On(b.ctx, r))) }, 1},
		"On of two": {func(r raysys.Ref[wide]) error {
			return ok(nodetest.Get(t, b.ctx, b.both.On(b.ctx, raysys.Ready(newWide(1)), r)))
		}, 1},
		"in an argument": {func(r raysys.Ref[wide]) error { return ok(nodetest.Get(t, b.ctx, b.read.Go(b.ctx, box{r}))) }, 1},
		"On of a grain":  {func(r raysys.Ref[wide]) error { return ok(nodetest.Get(t, b.ctx, b.tell.On(b.ctx, b.desk, r))) }, 1},
		"State": {func(r raysys.Ref[wide]) error {
			return ok(raysys.PhaseOf(r) == raysys.PhaseReady, nil)
		}, 0},
		"Wait": {func(r raysys.Ref[wide]) error {
			ready, _, err := raysys.Wait(b.ctx, []raysys.Ref[wide]{r}, 1)
			return ok(len(ready) == 1, err)
		}, 0},
		"AsCompleted": {func(r raysys.Ref[wide]) error {
			n := 0
			for range raysys.AsCompleted(b.ctx, []raysys.Ref[wide]{r, r}) {
				n++
			}
			return ok(n == 2, nil)
		}, 0},
	} {
		for from, r := range map[string]raysys.Ref[wide]{"put": raysys.Put(b.ctx, newWide(1)), "a task": b.made.Go(b.ctx, 2)} {
			nodetest.Get(t, b.ctx, r)
			s := b.evict(futureOf(r))
			if s == nil || !futureOf(r).Absent() {
				t.Fatalf("%s of a value of %s: it could not be evicted", name, from)
			}
			for round := range int32(2) { // the second time it is here, or has still not been needed
				if err := c.read(r); err != nil {
					t.Errorf("%s of a value of %s, round %d: %v", name, from, round, err)
				}
			}
			if n := s.fetches.Load(); n != c.fetch {
				t.Errorf("%s of a value of %s: fetched %d times, want %d", name, from, n, c.fetch)
			}
			if futureOf(r).Absent() != (c.fetch == 0) {
				t.Errorf("%s of a value of %s: absent is %v", name, from, futureOf(r).Absent())
			}
		}
	}
}

// A fetch that fails fails those who wait. What is lost stays lost; anything else may come right.
func TestAbsentValuesThatFail(t *testing.T) {
	b := newBench(t)
	for _, cause := range []error{raysys.ErrObjectLost, raysys.ErrStoreFull} {
		r := raysys.Put(b.ctx, newWide(1))
		s := b.evict(futureOf(r))
		s.fail.Store(&cause)
		for what, got := range map[string]error{
			"Get":           func() error { _, err := r.Get(b.ctx); return err }(),
			"View":          raysys.View(b.ctx, r, func(wide) error { return nil }),
			"On":            func() error { _, err := nodetest.Get(t, b.ctx, b.use.On(b.ctx, r)); return err }(),
			"On of a grain": func() error { _, err := nodetest.Get(t, b.ctx, b.tell.On(b.ctx, b.desk, r)); return err }(),
			"in an argument": func() error {
				_, err := nodetest.Get(t, b.ctx, b.read.Go(b.ctx, box{r}))
				return err
			}(),
		} {
			if !errors.Is(got, cause) {
				t.Errorf("%s of a value that fails with %v: %v", what, cause, got)
			}
		}
		s.fail.Store(nil)
		v, err := r.Get(b.ctx)
		lost := errors.Is(cause, raysys.ErrObjectLost)
		if lost && (!errors.Is(err, cause) || raysys.PhaseOf(r) != raysys.PhaseLost || s.fetches.Load() != 1) {
			t.Errorf("what is lost: %v, %v after %d fetches", err, raysys.PhaseOf(r), s.fetches.Load())
		}
		if !lost && (err != nil || !v.whole() || raysys.PhaseOf(r) != raysys.PhaseReady) {
			t.Errorf("what failed once: %v, %v", err, raysys.PhaseOf(r))
		}
	}
}

// A reference from another node whose value is large is ready before the value is here.
func TestForeignElsewhere(t *testing.T) {
	b := newBench(t)
	turn, _, _ := core.TurnOf(b.ctx)
	w := newWide(1)
	value := &shelf{value: &w}
	hops := &shelf{at: &shelf{at: value}}
	var r raysys.Ref[wide]
	if err := core.SetRefFuture((*core.Ref[wide])(&r), &core.NewUntyped(turn.Job(), hops).Future); err != nil {
		t.Fatal(err)
	}
	if ready, _, err := raysys.Wait(b.ctx, []raysys.Ref[wide]{r}, 1); len(ready) != 1 || err != nil {
		t.Fatal(ready, err)
	}
	if value.fetches.Load() != 0 || !futureOf(r).Absent() {
		t.Error("waiting fetched the value")
	}
	if v, err := r.Get(b.ctx); !v.whole() || err != nil || core.SourceOf(futureOf(r)) != core.Source(value) {
		t.Error(v, err, core.SourceOf(futureOf(r)))
	}
	if !futureOf(r).Evict(nil) || value.fetches.Load() != 1 {
		t.Error("a copy could not be evicted")
	}
	if v, err := r.Get(b.ctx); !v.whole() || err != nil || value.fetches.Load() != 2 {
		t.Error(v, err, value.fetches.Load())
	}
	round := &shelf{}
	round.at = round
	r = raysys.Ref[wide]{}
	if err := core.SetRefFuture((*core.Ref[wide])(&r), &core.NewUntyped(turn.Job(), round).Future); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Get(b.ctx); !errors.Is(err, raysys.ErrObjectLost) {
		t.Errorf("nodes that send each other for the value: %v", err)
	}
}

// A Get whose context ends gives up the wait and nothing else.
func TestAbsentGetGivesUp(t *testing.T) {
	b := newBench(t)
	r := raysys.Put(b.ctx, newWide(1))
	v, _ := futureOf(r).Outcome()
	s := &shelf{value: v, gate: make(chan struct{})}
	futureOf(r).Evict(s)
	ctx, cancel := context.WithTimeout(b.ctx, 10*time.Millisecond)
	defer cancel()
	if _, err := r.Get(ctx); !errors.Is(err, raysys.ErrDeadline) {
		t.Error(err)
	}
	call := b.use.On(b.ctx, r)
	if raysys.PhaseOf(call) != raysys.PhasePending {
		t.Error("a task runs without its argument")
	}
	close(s.gate)
	if ok, err := nodetest.Get(t, b.ctx, call); !ok || err != nil || s.fetches.Load() != 1 {
		t.Error(ok, err, s.fetches.Load())
	}
}

// together is a shelf that gives nothing before all of a meeting have been asked.
type together struct {
	*shelf
	asked *sync.WaitGroup
}

func (s *together) Fetch(into any, done func(error)) {
	s.asked.Done()
	go func() {
		s.asked.Wait()
		s.shelf.Fetch(into, done)
	}()
}

// GetAll has values that are elsewhere come at the same time: each of these waits for the others.
func TestGetAllFetchesTogether(t *testing.T) {
	b := newBench(t)
	var asked sync.WaitGroup
	refs := make([]raysys.Ref[wide], 5)
	for i := range refs {
		refs[i] = raysys.Put(b.ctx, newWide(i))
		v, _ := futureOf(refs[i]).Outcome()
		asked.Add(1)
		if !futureOf(refs[i]).Evict(&together{&shelf{value: v}, &asked}) {
			t.Fatal("not evicted")
		}
	}
	ctx, cancel := context.WithTimeout(b.ctx, 10*time.Second)
	defer cancel()
	vs, err := raysys.GetAll(ctx, refs).Values()
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range vs {
		if !v.whole() || *v.A != *newWide(i).A {
			t.Errorf("value %d is of %d", i, *v.A)
		}
	}
}

// However many tasks wait, only a few have their values fetched before they run; those that are cancelled meanwhile do
// not hold up the others, nor keep what they were given.
func TestFetchesAhead(t *testing.T) {
	b := newBench(t)
	gate := make(chan struct{})
	var shelves []*shelf
	var calls []raysys.Ref[bool]
	const n = 100
	for i := range n {
		r := raysys.Put(b.ctx, newWide(i))
		v, _ := futureOf(r).Outcome()
		s := &shelf{value: v, gate: gate}
		if !futureOf(r).Evict(s) {
			t.Fatal("not evicted")
		}
		shelves = append(shelves, s)
		calls = append(calls, b.use.On(b.ctx, r))
		r.Release() // the task has it on loan
	}
	fetches := func() (all int) {
		for _, s := range shelves {
			all += int(s.fetches.Load())
		}
		return all
	}
	limit := 2*nodeCPUs + 2
	if got := fetches(); got != limit {
		t.Errorf("%d values are on their way, not %d", got, limit)
	}
	for i := 1; i < n; i += 3 {
		calls[i].Cancel()
	}
	close(gate)
	for i, c := range calls {
		ok, err := nodetest.Get(t, b.ctx, c)
		switch {
		case i%3 == 1 && !errors.Is(err, raysys.ErrCancelled):
			t.Errorf("cancelled task %d: %v", i, err)
		case i%3 != 1 && (err != nil || !ok):
			t.Errorf("task %d: %v, %v", i, ok, err)
		}
	}
	if got := fetches(); got > n-n/3+limit {
		t.Errorf("%d values were fetched", got)
	}
	nodetest.Eventually(t, "the store is empty", func() bool { return b.count() == 0 })
}

// slippery is where a value is that is evicted again as soon as it has arrived, so many times.
type slippery struct {
	shelf
	of      *core.Future
	left    int
	deepest int // the most frames of a goroutine that fetched
}

func (s *slippery) Fetch(into any, done func(error)) {
	s.deepest = max(s.deepest, runtime.Callers(0, make([]uintptr, 10_000)))
	*into.(*wide) = *s.value.(*wide)
	done(nil)
	if s.left > 0 {
		s.left--
		s.of.Evict(s)
	}
}

// TestEvictedAsItArrives: a task whose value is evicted a thousand times before the task has taken it runs, and no stack grows with their number.
func TestEvictedAsItArrives(t *testing.T) {
	b := newBench(t)
	r := raysys.Put(b.ctx, newWide(1))
	v, err := futureOf(r).Outcome()
	if err != nil {
		t.Fatal(err)
	}
	s := &slippery{shelf: shelf{value: v}, of: futureOf(r), left: 1000}
	s.of.Evict(s)
	if ok, err := nodetest.Get(t, b.ctx, b.use.On(b.ctx, r)); err != nil || !ok {
		t.Error(ok, err)
	}
	if s.left > 0 || s.deepest > 200 {
		t.Errorf("%d times were left, and a stack had %d frames", s.left, s.deepest)
	}
}

// Readers, evictions, Release and cancellation at any moment: whoever gets a value gets the whole of it, who does not
// gets ErrReleased or its own cancellation, and nothing is left in the store.
func TestEvictionRaces(t *testing.T) {
	b := newBench(t)
	rapid.Check(t, func(rt *rapid.T) {
		r := raysys.Ref[wide]{}
		if rapid.Bool().Draw(rt, "task") {
			r = b.made.Go(b.ctx, 2)
		} else {
			r = raysys.Put(b.ctx, newWide(1))
		}
		release := rapid.Bool().Draw(rt, "release")
		var readers, evictors sync.WaitGroup
		stop := make(chan struct{})
		for range rapid.IntRange(1, 2).Draw(rt, "evictors") {
			evictors.Go(func() {
				for range 10_000 { // a value may be evicted each time that it arrives, so that without a bound the readers wait by chance
					select {
					case <-stop:
						return
					default:
						b.evict(futureOf(r))
					}
				}
			})
		}
		check := func(what string, whole bool, err error) {
			switch {
			case err == nil && !whole:
				t.Errorf("%s: a torn value", what)
			case err != nil && !(release && errors.Is(err, raysys.ErrReleased)) && !errors.Is(err, raysys.ErrCancelled):
				t.Errorf("%s: %v", what, err)
			}
		}
		for i := range rapid.IntRange(1, 8).Draw(rt, "readers") {
			readers.Go(func() {
				for range 10 {
					switch i % 6 {
					case 0:
						v, err := r.Get(b.ctx)
						check("Get", v.whole(), err)
					case 1:
						v, err := nodetest.Get(t, b.ctx, b.both.On(b.ctx, r, r))
						check("On", v, err)
					case 2:
						v, err := nodetest.Get(t, b.ctx, b.tell.On(b.ctx, b.desk, r))
						check("On of a grain", v, err)
					case 3:
						err := raysys.View(b.ctx, r, func(w wide) error {
							if !w.whole() {
								return errors.New("torn")
							}
							return nil
						})
						check("View", true, err)
					case 4:
						call := b.read.Go(b.ctx, box{r})
						call.Cancel()
						v, err := nodetest.Get(t, b.ctx, call)
						check("cancelled", v, err)
					case 5:
						settled := futureOf(r).Settled()
						v, err := futureOf(r).Outcome()
						var e *core.Elsewhere
						if errors.As(err, &e) {
							err = nil
						} else if err == nil {
							check("Outcome", v.(*wide).whole(), nil)
						}
						if settled {
							check("Outcome", true, err)
						}
					}
				}
			})
		}
		if release {
			r.Release()
		}
		readers.Wait()
		close(stop)
		evictors.Wait()
		r.Release()
		if _, err := r.Get(b.ctx); !errors.Is(err, raysys.ErrReleased) {
			t.Error(err)
		}
	})
	nodetest.Eventually(t, "the store is empty", func() bool { return b.count() == 0 })
}

// What cannot be kept fails, and is not counted.
func TestStoreFull(t *testing.T) {
	b := newBench(t)
	b.full = fmt.Errorf("%w: 7 bytes are left", raysys.ErrStoreFull)
	if _, err := raysys.Put(b.ctx, newWide(1)).Get(b.ctx); !errors.Is(err, raysys.ErrStoreFull) {
		t.Error("put:", err)
	}
	if _, err := nodetest.Get(t, b.ctx, b.made.Go(b.ctx, 1)); !errors.Is(err, raysys.ErrStoreFull) {
		t.Error("result:", err)
	}
	if v, err := raysys.Put(b.ctx, "small").Get(b.ctx); v != "small" || err != nil {
		t.Error("a small value:", err)
	}
	b.mu.Lock()
	b.full = nil
	b.mu.Unlock()
	r := raysys.Put(b.ctx, newWide(1))
	s := b.evict(futureOf(r))
	b.mu.Lock()
	b.full = raysys.ErrStoreFull
	b.mu.Unlock()
	for range 3 { // it comes, and there is no room to keep it
		if v, err := r.Get(b.ctx); !v.whole() || err != nil {
			t.Error("brought back:", err)
		}
	}
	if !futureOf(r).Absent() || s.fetches.Load() != 3 {
		t.Error("it stayed without room", s.fetches.Load())
	}
}
