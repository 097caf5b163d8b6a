package grains_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// scorer does many numbers at once: it answers each with its double, and the node.
type scorer struct{}

type scored struct {
	Double int
	Node   raysys.NodeID
}

type scoring struct {
	mu      sync.Mutex
	batches [][]int
	ended   []error       // of turns that wait
	open    chan struct{} // made in the bubble of a virtual test
}

func (s *scoring) seen() [][]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.batches)
}

func (s *scoring) sizes() (n []int) {
	for _, b := range s.seen() {
		n = append(n, len(b))
	}
	return n
}

var (
	errOdd   = errors.New("odd")
	errLocal = errors.New("too many")
	_        = raysys.RegisterError("grains_test.odd", errOdd)
)

const (
	refusedArg = 1000 + iota // alone, with a registered error
	textArg                  // alone, with an error that is not registered
	failsArg                 // the whole batch
	panicsArg
	shortArg // an answer too few
	longArg  // an answer too many
	waitsArg // until its ctx ends, or open is closed
)

// score is the method of a kind of scorers in a table of its own.
func score(opts ...grains.Option) (*raysys.Table, grains.Kind[scorer], grains.Func[scorer, []int, []grains.Answer[scored]], *scoring) {
	table, seen := raysys.NewTable(), &scoring{}
	kind := grains.DefineIn[scorer](table, "scorer", opts...)
	return table, kind, grains.Method(kind, "score", func(_ *scorer, ctx context.Context, args []int) ([]grains.Answer[scored], error) {
		seen.mu.Lock()
		seen.batches = append(seen.batches, slices.Clone(args))
		seen.mu.Unlock()
		answers := make([]grains.Answer[scored], len(args), len(args)+1)
		for i, a := range args {
			switch a {
			case refusedArg:
				answers[i].Err.Err = fmt.Errorf("number %d: %w", a, errOdd)
			case textArg:
				answers[i].Err.Err = errLocal
			case failsArg:
				return nil, errOdd
			case panicsArg:
				panic("no number")
			case shortArg:
				return answers[1:], nil
			case longArg:
				return append(answers, answers[0]), nil
			case waitsArg:
				select {
				case <-ctx.Done():
					seen.mu.Lock()
					seen.ended = append(seen.ended, context.Cause(ctx))
					seen.mu.Unlock()
					return nil, ctx.Err()
				case <-seen.open:
				}
			}
			answers[i].Value = scored{2 * a, system.NodeOf(ctx).Name()}
		}
		return answers, nil
	}), seen
}

// TestBatchGathers: a batch leaves when it is full, or when its first call has waited; each grain has its own.
func TestBatchGathers(t *testing.T) {
	for _, c := range []struct {
		calls, grains, size int
		want                []int
		waits               bool
	}{
		{5, 1, 64, []int{5}, true},
		{64, 1, 64, []int{64}, false},
		{130, 1, 64, []int{2, 64, 64}, true},
		{3, 1, 1, []int{1, 1, 1}, false},
		{10, 3, 3, []int{1, 3, 3, 3}, true},
		{9, 3, 4, []int{3, 3, 3}, true},
	} {
		t.Run(fmt.Sprint(c.calls, "of", c.grains, "by", c.size), func(t *testing.T) {
			table, kind, method, seen := score()
			many := grains.Batch(method, c.size, 2*time.Millisecond)
			testkit.Virtual(t, func(k *testkit.Kit) {
				t, ctx := k.T(), k.Context()
				began := time.Now()
				refs := make([]raysys.Ref[scored], c.calls)
				for i := range refs {
					refs[i] = many.Call(ctx, kind.Get(fmt.Sprint(i%c.grains)), i)
				}
				for i, o := range raysys.GetAll(ctx, refs) {
					if o.Err != nil || o.Value.Double != 2*i {
						t.Fatal(i, o)
					}
				}
				sizes := seen.sizes()
				if slices.Sort(sizes); !slices.Equal(sizes, c.want) {
					t.Errorf("batches of %v, want %v", sizes, c.want)
				}
				// The clock is virtual: the wait is on the runtime's.
				if took := time.Since(began); c.waits != (took >= 2*time.Millisecond) || took > 4*time.Millisecond {
					t.Errorf("answered after %v", took)
				}
				for _, b := range seen.seen() {
					if !slices.IsSorted(b) {
						t.Errorf("a batch out of order: %v", b)
					}
				}
			}, testkit.Table(table))
		})
	}
}

// TestBatchWaitsForAnother: while a batch is away calls gather beyond the wait, and leave with its end; a full one leaves all the same.
func TestBatchWaitsForAnother(t *testing.T) {
	table, kind, method, seen := score(grains.StatelessWorker(2))
	many := grains.Batch(method, 4, 2*time.Millisecond)
	testkit.Virtual(t, func(k *testkit.Kit) {
		t, ctx, g := k.T(), k.Context(), kind.Get("a")
		seen.open = make(chan struct{})
		refs := []raysys.Ref[scored]{many.Call(ctx, g, waitsArg)}
		for i := range 7 {
			k.Advance(10 * time.Millisecond)
			refs = append(refs, many.Call(ctx, g, i))
		}
		k.Advance(time.Second)
		if got := fmt.Sprint(seen.seen()); got != fmt.Sprint([][]int{{waitsArg}, {0, 1, 2, 3}}) {
			t.Error("beside the one that is away:", got)
		}
		other := many.Call(ctx, kind.Get("b"), 7)
		if v, err := other.Get(ctx); err != nil || v.Double != 14 {
			t.Error("another grain:", v, err)
		}
		close(seen.open)
		if _, err := raysys.GetAll(ctx, refs).Values(); err != nil {
			t.Error(err)
		}
		if got := seen.seen(); fmt.Sprint(got[len(got)-1]) != "[4 5 6]" {
			t.Error("after it:", got)
		}
	}, testkit.Table(table))
}

// TestBatchFails: an answer's error is its caller's alone, and an error of the whole is everybody's. It reads alike on one node and between two.
func TestBatchFails(t *testing.T) {
	for _, nodes := range []int{0, 2} {
		table, kind, method, _ := score()
		many := grains.Batch(method, 3, time.Second)
		opts := []testkit.Option{testkit.Table(table)}
		if nodes > 0 {
			opts = append(opts, testkit.Nodes(nodes))
		}
		testkit.Virtual(t, func(k *testkit.Kit) {
			t, ctx := k.T(), k.Context()
			for _, c := range []struct {
				arg  int
				all  bool
				is   error
				text string
			}{
				{refusedArg, false, errOdd, "scorer/a.score: number 1000: odd"},
				{textArg, false, nil, "scorer/a.score: too many"},
				{failsArg, true, errOdd, "scorer/a.score: odd"},
				{panicsArg, true, raysys.ErrPanic, "scorer/a.score: panic: no number"},
				{shortArg, true, nil, "scorer/a.score: the method was given 3 arguments and returned 2 answers: a method of grains.Batch returns one for each, in their order"},
				{longArg, true, nil, "scorer/a.score: the method was given 3 arguments and returned 4 answers: a method of grains.Batch returns one for each, in their order"},
			} {
				refs := []raysys.Ref[scored]{many.Call(ctx, kind.Get("a"), 1), many.Call(ctx, kind.Get("a"), c.arg), many.Call(ctx, kind.Get("a"), 3)}
				for i, o := range raysys.GetAll(ctx, refs) {
					if i != 1 && !c.all {
						if o.Err != nil || o.Value.Double != 2*(i+1) {
							t.Errorf("beside argument %d: %v, %v", c.arg, o.Value, o.Err)
						}
						continue
					}
					var te *raysys.TaskError
					if !errors.As(o.Err, &te) || o.Err.Error() != c.text || c.is != nil && !errors.Is(o.Err, c.is) || te.Function != "scorer/a.score" {
						t.Errorf("%d nodes, argument %d: %v, want %s", nodes, c.arg, o.Err, c.text)
					}
				}
			}
		}, opts...)
	}
}

// TestBatchRefuses: sizes, waits, kinds and handles that cannot be meant fail each call, and say why.
func TestBatchRefuses(t *testing.T) {
	table, kind, method, seen := score()
	durable := grains.DefineIn[struct{ N grains.State[int] }](table, "durable", grains.Durable())
	set := grains.Method(durable, "set", func(*struct{ N grains.State[int] }, context.Context, []int) (r []grains.Answer[scored], err error) {
		return
	})
	k := testkit.New(t, testkit.Table(table))
	a, late := kind.Get("a"), method.With(raysys.Deadline(time.Second))
	ended, cancel := context.WithCancel(k.Context())
	cancel()
	for _, c := range []struct {
		ref  raysys.Ref[scored]
		is   error
		text string
	}{
		{grains.Batch(method, 0, time.Second).Call(k.Context(), a, 1), raysys.ErrBadOption, "Batch of 0 calls: give 1 to 65536"},
		{grains.Batch(method, 1<<20, time.Second).Call(k.Context(), a, 1), raysys.ErrBadOption, "Batch of 1048576 calls"},
		{grains.Batch(method, 64, 0).Call(k.Context(), a, 1), raysys.ErrBadOption, "waits 0s: give a time above zero"},
		{grains.Batch(method, 64, -1).Call(k.Context(), a, 1), raysys.ErrBadOption, "waits -1ns"},
		{grains.Batch(method, 64, 30*time.Second).Call(k.Context(), a, 1), raysys.ErrBadOption, "with a deadline of 30s"},
		{grains.Batch(late, 64, time.Second).Call(k.Context(), a, 1), raysys.ErrBadOption, "with a deadline of 1s"},
		{grains.Batch(method.With(raysys.CPU(1)), 64, time.Second).Call(k.Context(), a, 1), raysys.ErrBadOption, "CPU"},
		{grains.Batch(set, 64, time.Second).Call(k.Context(), durable.Get("a"), 1), raysys.ErrBadOption, "declare the method ReadOnly()"},
		{grains.Batch(grains.Func[scorer, []int, []grains.Answer[scored]]{}, 64, time.Second).Call(k.Context(), a, 1), raysys.ErrBadDefinition, "zero handle"},
		{grains.Batched[scorer, int, scored]{}.Call(k.Context(), a, 1), raysys.ErrBadDefinition, "zero Batched"},
		{grains.Batch(method, 64, time.Second).Call(k.Context(), grains.Grain[scorer]{}, 1), raysys.ErrInvalidRef, "zero Grain"},
		{grains.Batch(method, 64, time.Second).Call(ended, a, 1), raysys.ErrCancelled, "scorer.score"},
		{grains.Batch(method, 64, time.Second).Call(context.Background(), a, 1), raysys.ErrNoRuntime, "scorer.score"},
	} {
		if _, err := c.ref.Get(k.Context()); !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%v, want %q", err, c.text)
		}
	}
	if n := len(seen.seen()); n > 0 {
		t.Errorf("%d batches were made", n)
	}
}

// TestBatchCancelled: a caller that gives up takes its argument out of a batch that has not left, and hinders nobody in one that has. The
// turn ends with its last caller.
func TestBatchCancelled(t *testing.T) {
	for _, nodes := range []int{0, 2} {
		table, kind, method, seen := score()
		many := grains.Batch(method, 64, time.Second)
		opts := []testkit.Option{testkit.Table(table)}
		if nodes > 0 {
			opts = append(opts, testkit.Nodes(nodes))
		}
		testkit.Virtual(t, func(k *testkit.Kit) {
			t, ctx, g := k.T(), k.Context(), kind.Get("a")
			seen.open = make(chan struct{})
			gives := func() (context.Context, context.CancelFunc) { return context.WithCancel(ctx) }
			ctx1, cancel1 := gives()
			early, stays, ended := many.Call(ctx, g, 1), many.Call(ctx, g, 2), many.Call(ctx1, g, 3)
			early.Cancel()
			cancel1()
			if v, err := stays.Get(ctx); err != nil || v.Double != 4 {
				t.Error(v, err)
			}
			for _, r := range []raysys.Ref[scored]{early, ended} {
				if _, err := r.Get(ctx); !errors.Is(err, raysys.ErrCancelled) {
					t.Error(err)
				}
			}
			if got := fmt.Sprint(seen.seen()); got != "[[2]]" {
				t.Errorf("batches %s, want that of the one caller", got)
			}
			if a, b := many.Call(ctx, g, 1), many.Call(ctx, g, 2); !a.Cancel() || !b.Cancel() {
				t.Error("not cancelled")
			}
			k.Advance(2 * time.Second)
			if n := len(seen.seen()); n != 1 {
				t.Errorf("%d batches: one without callers was made", n)
			}

			ctx1, cancel1 = gives()
			ctx2, cancel2 := gives()
			gone, last := many.Call(ctx1, g, waitsArg), many.Call(ctx2, g, 7)
			k.Advance(2 * time.Second)
			cancel1()
			k.Advance(time.Second)
			seen.mu.Lock()
			if len(seen.ended) > 0 {
				t.Error("the turn ended although a caller waits:", seen.ended)
			}
			seen.mu.Unlock()
			if p := raysys.PhaseOf(last); p != raysys.PhasePending {
				t.Error(p)
			}
			cancel2()
			k.Advance(time.Second)
			seen.mu.Lock()
			if len(seen.ended) != 1 {
				t.Error("the turn goes on without callers")
			}
			seen.mu.Unlock()
			for _, r := range []raysys.Ref[scored]{gone, last} {
				if _, err := r.Get(ctx); !errors.Is(err, raysys.ErrCancelled) {
					t.Error(err)
				}
			}
		}, opts...)
	}
}

// TestBatchDeadline: each caller has its own deadline, counted from its call; one that is late ends while the others go on.
func TestBatchDeadline(t *testing.T) {
	table, kind, method, seen := score()
	many := grains.Batch(method.With(raysys.Deadline(10*time.Second)), 64, 4*time.Second)
	testkit.Virtual(t, func(k *testkit.Kit) {
		t, ctx, g := k.T(), k.Context(), kind.Get("a")
		seen.open = make(chan struct{})
		first := many.Call(ctx, g, waitsArg)
		k.Advance(3 * time.Second)
		second := many.Call(ctx, g, 2)
		k.Advance(6900 * time.Millisecond)
		for _, r := range []raysys.Ref[scored]{first, second} {
			if p := raysys.PhaseOf(r); p != raysys.PhasePending {
				t.Fatal(p)
			}
		}
		k.Advance(200 * time.Millisecond)
		if _, err := first.Get(ctx); !errors.Is(err, raysys.ErrDeadline) || err.Error() != "scorer/a.score: deadline exceeded after 10s (raysys.Deadline sets another)" {
			t.Error(err)
		}
		if p := raysys.PhaseOf(second); p != raysys.PhasePending {
			t.Error("the second caller has 3 s more, and is", p)
		}
		close(seen.open)
		if v, err := second.Get(ctx); err != nil || v.Double != 4 {
			t.Error(v, err)
		}
		short, stop := context.WithTimeout(ctx, time.Second)
		defer stop()
		if _, err := many.Call(short, g, 3).Get(ctx); !errors.Is(err, raysys.ErrDeadline) {
			t.Error("before it leaves:", err)
		}
		k.Advance(5 * time.Second)
		if n := len(seen.seen()); n != 1 {
			t.Errorf("%d batches: one was made for a caller that had ended", n)
		}
	}, testkit.Table(table))
}

// TestBatchKilled: the node dies with a batch. An idempotent one is made again elsewhere, and nobody notices; another's outcome is unknown.
func TestBatchKilled(t *testing.T) {
	for _, again := range []bool{false, true} {
		table, kind, method, seen := score()
		if again {
			method = method.Idempotent()
		}
		many := grains.Batch(method, 2, time.Second)
		testkit.Virtual(t, func(k *testkit.Kit) {
			t, ctx, c, g := k.T(), k.Context(), k.Cluster(), kind.Get("a")
			seen.open = make(chan struct{})
			v, err := many.Call(ctx, g, 1).Get(ctx)
			if err != nil {
				t.Fatal(err)
			}
			refs := []raysys.Ref[scored]{many.Call(ctx, g, waitsArg), many.Call(ctx, g, 2)}
			k.Advance(time.Second)
			for i := range c.Size() {
				if c.Name(i+1) == v.Node {
					c.Kill(i + 1)
				}
			}
			close(seen.open)
			for i, o := range raysys.GetAll(ctx, refs) {
				if again && (o.Err != nil || o.Value.Node == v.Node) || !again && !errors.Is(o.Err, raysys.ErrOutcomeUnknown) {
					t.Error(i, o.Value, o.Err)
				}
			}
		}, testkit.Table(table), testkit.Nodes(3))
	}
}

// TestBatchOfWorkers: batches of a stateless kind go round its nodes.
func TestBatchOfWorkers(t *testing.T) {
	table, kind, method, seen := score(grains.StatelessWorker(2))
	many := grains.Batch(method, 4, time.Second)
	testkit.Virtual(t, func(k *testkit.Kit) {
		t, ctx := k.T(), k.Context()
		var refs []raysys.Ref[scored]
		for i := range 40 {
			refs = append(refs, many.Call(ctx, kind.Get("model"), i))
		}
		nodes := map[raysys.NodeID]bool{}
		for i, o := range raysys.GetAll(ctx, refs) {
			if o.Err != nil || o.Value.Double != 2*i {
				t.Error(i, o)
			}
			nodes[o.Value.Node] = true
		}
		if len(nodes) != 3 || len(seen.seen()) != 10 {
			t.Errorf("%d batches on %d nodes", len(seen.seen()), len(nodes))
		}
	}, testkit.Table(table), testkit.Nodes(3))
}

// loner is asked in batches, and asks the next.
type loner struct{}

// TestBatchCycle: a chain that comes back through batches is refused.
func TestBatchCycle(t *testing.T) {
	for _, keys := range []string{"a", "abc"} {
		table := raysys.NewTable()
		kind := grains.DefineIn[loner](table, "loner")
		var many grains.Batched[loner, int, int]
		many = grains.Batch(grains.Method(kind, "many", func(_ *loner, ctx context.Context, args []int) ([]grains.Answer[int], error) {
			n := (args[0] + 1) % len(keys)
			_, err := many.Call(ctx, kind.Get(keys[n:n+1]), n).Get(ctx)
			return nil, err
		}), 8, time.Millisecond)
		testkit.Virtual(t, func(k *testkit.Kit) {
			if _, err := many.Call(k.Context(), kind.Get("a"), 0).Get(k.Context()); !errors.Is(err, raysys.ErrCycle) {
				k.T().Error(err)
			}
		}, testkit.Table(table))
	}
}

// TestBatchClosed: calls that wait for company when their node closes end with it; those of another node in the process do not meet them.
func TestBatchClosed(t *testing.T) {
	table, kind, method, _ := score()
	many := grains.Batch(method, 64, 20*time.Second)
	for range 2 {
		n, err := system.New(system.Config{Table: table})
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx := n.Context(context.Background())
		r := many.Call(ctx, kind.Get("a"), 1)
		if err := n.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Get(ctx); !errors.Is(err, raysys.ErrClosed) {
			t.Error(err)
		}
	}
}

// TestBatchManyCallers: callers on many goroutines, some of which give up, each get their own answer.
func TestBatchManyCallers(t *testing.T) {
	table, kind, method, seen := score(grains.StatelessWorker(2))
	many := grains.Batch(method, 8, time.Millisecond)
	k := testkit.New(t, testkit.Table(table))
	var wg sync.WaitGroup
	for i := range 16 {
		ctx := raysys.Branch(k.Context(), i)
		wg.Go(func() {
			for n := range 50 {
				arg := (i*50 + n) % 900
				r := many.Call(ctx, kind.Get("model"), arg)
				gives := n%5 == 4 && r.Cancel()
				if v, err := r.Get(ctx); gives != errors.Is(err, raysys.ErrCancelled) || !gives && (err != nil || v.Double != 2*arg) {
					t.Errorf("%d: %v, %v", arg, v, err)
				}
			}
		})
	}
	wg.Wait()
	for _, n := range seen.sizes() {
		if n > 8 {
			t.Errorf("a batch of %d", n)
		}
	}
}
