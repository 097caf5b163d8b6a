package testkit_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

func TestMain(m *testing.M) {
	testkit.Child()
	goleak.VerifyTestMain(m)
}

type box struct {
	Name  string
	Parts []int
}

var kept [][]int // what the misbehaving tasks below hold on to

var (
	table = raysys.NewTable()
	sum   = tasks.DefineIn(table, "sum", func(ctx context.Context, b box) (int, error) {
		n := 0
		for _, p := range b.Parts {
			n += p
		}
		return n, nil
	})
	keep = tasks.DefineIn(table, "keep", func(ctx context.Context, n int) ([]int, error) {
		s := make([]int, n)
		kept = append(kept, s)
		return s, nil
	})
	leak = tasks.DefineIn(table, "leak", func(ctx context.Context, stop raysys.Handle[int]) (int, error) {
		until := release
		go func() { <-until }()
		return 0, nil
	})
	draw = tasks.Define0In(table, "draw", func(ctx context.Context) (uint64, error) { return raysys.Rand(ctx).Uint64(), nil })
	nap  = tasks.DefineIn(table, "nap", func(ctx context.Context, d time.Duration) (time.Duration, error) {
		from := time.Now()
		select {
		case <-time.After(d):
			return time.Since(from), nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	})
	release = make(chan struct{}) // closed by the leak test
)

type room struct{ visits int }

func (r *room) Enter(ctx context.Context) (int, error) { r.visits++; return r.visits, nil }

var (
	rooms = grains.DefineIn[room](table, "room")
	enter = grains.Method0(rooms, "enter", (*room).Enter)
)

func TestRunsTasksAndGrains(t *testing.T) {
	k := testkit.New(t, testkit.Table(table))
	ctx := k.Context()
	if n, err := sum.Go(ctx, box{Parts: []int{1, 2, 3}}).Get(ctx); n != 6 || err != nil {
		t.Error(n, err)
	}
	if n, err := enter.Call(ctx, rooms.Get("a")).Get(ctx); n != 1 || err != nil {
		t.Error(n, err)
	}
}

func TestStrictReportsAChangedArgument(t *testing.T) {
	f := &fake{}
	f.run(func() {
		k := testkit.New(f, testkit.Seed(1), testkit.Table(table))
		b := box{Name: "x", Parts: []int{1, 2}}
		r := sum.Go(k.Context(), b)
		b.Parts[0] = 99
		if n, err := r.Get(k.Context()); n != 3 || err != nil {
			t.Errorf("the task saw the change: %d, %v", n, err)
		}
	})
	f.want(t, "argument of task sum", "kit_test.go:", "was {Name:x Parts:[1 2]}", "is  {Name:x Parts:[99 2]}")
}

func TestStrictReportsAChangedResultAndObject(t *testing.T) {
	kept = nil
	f := &fake{}
	f.run(func() {
		k := testkit.New(f, testkit.Seed(1), testkit.Table(table))
		ctx := k.Context()
		got, err := keep.Go(ctx, 2).Get(ctx)
		if err != nil {
			t.Error(err)
		}
		kept[0][1] = 7 // the task's own copy, after it returned it
		if got[1] != 0 {
			t.Error("the caller sees the task's memory")
		}
		v := []string{"a"}
		raysys.Put(ctx, v)
		v[0] = "b"
	})
	f.want(t, "result of task keep", "value of Put", "was [a]", "is  [b]")
}

func TestStrictIsQuietAboutHonestPrograms(t *testing.T) {
	f := &fake{}
	f.run(func() {
		k := testkit.New(f, testkit.Seed(1), testkit.Table(table))
		ctx := k.Context()
		r := raysys.Put(ctx, box{Parts: []int{4}})
		for range 10 {
			if n, err := sum.On(ctx, r).Get(ctx); n != 4 || err != nil {
				t.Error(n, err)
			}
		}
	})
	f.want(t)
}

// TestStrictReportsAChangeInView: f has a copy of its own, which shows what f did.
func TestStrictReportsAChangeInView(t *testing.T) {
	f := &fake{}
	f.run(func() {
		k := testkit.New(f, testkit.Seed(1), testkit.Table(table))
		r := raysys.Put(k.Context(), []int{1, 2})
		for range 2 {
			if err := raysys.View(k.Context(), r, func(v []int) error {
				if v[1] != 2 {
					t.Errorf("another View sees the change: %v", v)
				}
				v[1] = 3
				return nil
			}); err != nil {
				t.Error(err)
			}
		}
	})
	f.want(t, "value of View was changed", "was [1 2]", "is  [1 3]")
}

// TestStrictReportsATaskThatChanges: a task that changes its argument is reported, since another attempt, or a rebuild of
// its value, would get what it left.
func TestStrictReportsATaskThatChanges(t *testing.T) {
	table := raysys.NewTable()
	spoil := tasks.DefineIn(table, "spoil", func(_ context.Context, v []int) (int, error) {
		v[1] = 3
		return v[1], nil
	})
	f := &fake{}
	f.run(func() {
		k := testkit.New(f, testkit.Seed(1), testkit.Table(table))
		v := []int{1, 2}
		if n, err := spoil.Go(k.Context(), v).Get(k.Context()); n != 3 || err != nil {
			t.Error(n, err)
		}
		if v[1] != 2 {
			t.Error("the submitter sees the change")
		}
	})
	f.want(t, "argument of task spoil, while it ran, was changed", "was [1 2]", "is  [1 3]")
}

// TestStrictLeavesMappings: what a View showed may be gone when it is over, and is not looked at again.
func TestStrictLeavesMappings(t *testing.T) {
	f := &fake{}
	f.run(func() {
		k := testkit.New(f, testkit.Seed(1), testkit.Config(system.Config{Table: table, Objects: system.ObjectConfig{Memory: 1 << 20}}))
		ctx := k.Context()
		for i := range 10 { // more than stay mapped
			r := raysys.Put(ctx, bytes.Repeat([]byte{byte(i)}, 2<<20))
			if err := raysys.View(ctx, r, func(b []byte) error {
				if len(b) != 2<<20 || b[len(b)-1] != byte(i) {
					t.Errorf("%d bytes", len(b))
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
			r.Release()
		}
	})
	f.want(t)
}

func TestLooseHandsOver(t *testing.T) {
	f := &fake{}
	f.run(func() {
		k := testkit.New(f, testkit.Seed(1), testkit.Table(table), testkit.Loose())
		v := []string{"a"}
		raysys.Put(k.Context(), v)
		v[0] = "b"
	})
	f.want(t)
}

func TestLeakIsFound(t *testing.T) {
	f := &fake{}
	f.run(func() {
		k := testkit.New(f, testkit.Seed(1), testkit.Table(table))
		ctx := k.Context()
		if _, err := leak.Go(ctx, raysys.Ready(1).Handle()).Get(ctx); err != nil {
			t.Error(err)
		}
	})
	close(release)
	release = make(chan struct{})
	f.want(t, "left behind", "kit_test.go")
}

func TestSeedRepeats(t *testing.T) {
	var ids [2]raysys.TaskID
	var draws [2]uint64
	for i := range ids {
		f := &fake{}
		f.run(func() {
			k := testkit.New(f, testkit.Table(table), testkit.Seed(42))
			r := draw.Go(k.Context())
			ids[i] = r.ID()
			draws[i], _ = r.Get(k.Context())
		})
		f.want(t)
	}
	if ids[0] != ids[1] || draws[0] != draws[1] {
		t.Errorf("two runs with one seed: %v, %v", ids, draws)
	}
	t.Setenv("RAYSYS_TESTKIT_SEED", "7")
	if k := testkit.New(t, testkit.Table(table), testkit.Seed(42)); k.Seed() != 7 {
		t.Errorf("RAYSYS_TESTKIT_SEED=7 gave seed %d", k.Seed())
	}
}

func TestVirtualTime(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		ctx := k.Context()
		from := time.Now()
		if d, err := nap.Go(ctx, 24*time.Hour).Get(ctx); d != 24*time.Hour || err != nil {
			t.Error(d, err)
		}
		if got := time.Since(from); got != 24*time.Hour {
			t.Errorf("the day took %v", got)
		}
		_, err := nap.With(raysys.Deadline(time.Minute)).Go(ctx, time.Hour).Get(ctx)
		if !errors.Is(err, raysys.ErrDeadline) {
			t.Error(err)
		}
		// An idle grain goes after its 15 minutes and starts from zero.
		enter.Call(ctx, rooms.Get("a"))
		k.Advance(5 * time.Minute)
		if n, _ := enter.Call(ctx, rooms.Get("a")).Get(ctx); n != 2 {
			t.Errorf("visit %d after 5 minutes, want 2", n)
		}
		k.Advance(20 * time.Minute)
		if n, _ := enter.Call(ctx, rooms.Get("a")).Get(ctx); n != 1 {
			t.Errorf("visit %d after 20 idle minutes, want 1", n)
		}
	}, testkit.Table(table))
}

func TestAdvanceNeedsVirtualTime(t *testing.T) {
	f := &fake{}
	f.run(func() { testkit.New(f, testkit.Seed(1), testkit.Table(table)).Advance(time.Second) })
	f.want(t, "testkit.Virtual")
}

func TestEventually(t *testing.T) {
	n := 0
	testkit.Eventually(t, time.Minute, "counts to three", func() bool { n++; return n == 3 })
	f := &fake{}
	f.run(func() { testkit.Eventually(f, time.Millisecond, "never", func() bool { return false }) })
	f.want(t, "never")
}

// TestTwoKits: goroutines of the first Kit's node that the test started after it had made the second are no leak.
func TestTwoKits(t *testing.T) {
	f := &fake{name: t.Name()}
	f.run(func() {
		first := testkit.New(f, testkit.Table(table))
		second := testkit.New(f, testkit.Table(table))
		for _, k := range []*testkit.Kit{first, second, first} {
			if _, err := nap.Go(k.Context(), 0).Get(k.Context()); err != nil {
				t.Error(err)
			}
			enter.Call(k.Context(), rooms.Get("a"))
			if _, err := enter.Call(k.Context(), rooms.Get("a")).Get(k.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	if len(f.errors) > 0 {
		t.Errorf("a test with two Kits is blamed for goroutines of raysys's own: %q", f.errors)
	}
}
