package testkit_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// march is a task of many minutes, which saves each of them in a counter and gives way to a drain.
type march struct {
	table   *raysys.Table
	minutes atomic.Int64 // that were made
	left    atomic.Int64 // attempts that gave way
	unclear atomic.Int64 // of those that did not know how long they had
	walk    tasks.Task[way, stop]
	told    grains.Func[counter, int, int]
	kind    grains.Kind[counter]
	node    atomic.Pointer[string] // on which an attempt began last
	slow    grains.Kind[lingerer]
	linger  grains.Func0[lingerer, int]
}

// lingerer is a grain that takes its time to go.
type lingerer struct{}

func (*lingerer) OnDeactivate(ctx context.Context) error {
	select {
	case <-time.After(20 * time.Second):
	case <-ctx.Done():
	}
	return nil
}

func (*lingerer) Begin(context.Context) (int, error) { return 0, nil }

type way struct {
	Name    string
	Minutes int
}

type stop struct {
	Attempt int
	Node    raysys.NodeID
}

func newMarch() *march {
	m := &march{table: raysys.NewTable()}
	m.kind = grains.DefineIn[counter](m.table, "counter")
	m.told = grains.Method(m.kind, "add", (*counter).Add)
	m.slow = grains.DefineIn[lingerer](m.table, "lingerer")
	m.linger = grains.Method0(m.slow, "begin", (*lingerer).Begin)
	m.walk = tasks.DefineIn(m.table, "march", func(ctx context.Context, w way) (stop, error) {
		saved, here := m.kind.Get(w.Name), at(ctx)
		m.node.Store(&here)
		for {
			n, err := m.told.Call(ctx, saved, 0).Get(ctx)
			if err != nil || n == w.Minutes {
				return stop{raysys.Attempt(ctx), raysys.NodeID(at(ctx))}, err
			}
			select {
			case <-raysys.Leaving(ctx):
				if left, leaving := raysys.LeavesIn(ctx); !leaving || left <= 0 {
					m.unclear.Add(1)
				}
				m.left.Add(1)
				return stop{}, fmt.Errorf("minute %d: %w", n, raysys.ErrLeaving)
			case <-time.After(time.Minute):
			}
			m.minutes.Add(1)
			if _, err := m.told.Call(ctx, saved, 1).Get(ctx); err != nil {
				return stop{}, err
			}
		}
	})
	return m
}

// TestLeaving: twenty tasks of an hour save each minute, while three nodes roll. No minute is made twice, and each task is
// made again as often as its node leaves, though none may fail.
func TestLeaving(t *testing.T) {
	m := newMarch()
	testkit.Virtual(t, func(k *testkit.Kit) {
		t, c, ctx := k.T(), k.Cluster(), k.Context()
		c.Ready()
		var all []raysys.Ref[stop]
		for i := range 20 {
			all = append(all, m.walk.Go(ctx, way{fmt.Sprint(i), 60}))
		}
		for i := 1; i <= 3; i++ {
			k.Advance(10*time.Minute + 20*time.Second)
			c.Drain(i)
			c.Restart(i)
			c.Ready()
		}
		stops, err := raysys.GetAll(ctx, all).Values()
		if err != nil {
			t.Fatal(err)
		}
		attempts := 0
		for _, s := range stops {
			attempts += s.Attempt
		}
		if left := m.left.Load(); left < 20 || attempts != 20+int(left) || m.unclear.Load() > 0 {
			t.Errorf("%d attempts, %d gave way, %d of them did not know how long they had", attempts, left, m.unclear.Load())
		}
		if n := m.minutes.Load(); n != 20*60 {
			t.Errorf("%d minutes were made, want %d", n, 20*60)
		}
	}, testkit.Table(m.table), testkit.Nodes(3), testkit.Each(func(i int, cfg *system.Config) {
		cfg.Resources.CPU = 10
		if i == 0 {
			cfg.Cluster.Role, cfg.Resources = system.Driver, raysys.Resources{}
		}
	}))
}

// TestLeavingSubmitter: a task gives way to the drain of the node that has submitted it, and is made again on another,
// whether or not it takes a CPU.
func TestLeavingSubmitter(t *testing.T) {
	for name, asks := range map[string][]raysys.Option{
		"plain": nil, "of no CPU": {raysys.CPU(0), raysys.Placement(raysys.PreferLocal)}, "named": {raysys.Detached("march")},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMarch()
			testkit.Virtual(t, func(k *testkit.Kit) {
				t, c := k.T(), k.Cluster()
				c.Ready()
				ctx := c.Node(1).Context(k.Context())
				// The grains go first: until then the node takes its own tasks.
				if _, err := m.linger.With(raysys.OnNode("n1")).Call(ctx, m.slow.Get("here")).Get(ctx); err != nil {
					t.Fatal(err)
				}
				walk := m.walk.With(asks...)
				f := walk.Go(ctx, way{"one", 3})
				k.Advance(90 * time.Second)
				drain, cancel := context.WithTimeout(context.Background(), time.Hour)
				defer cancel()
				if err := c.Node(1).Drain(drain); err != nil { // it waits for its own task
					t.Error(err)
				}
				s, err := f.Get(k.Context())
				if err != nil || s != (stop{2, "n2"}) || m.minutes.Load() != 3 {
					t.Error(s, err, m.minutes.Load())
				}
			}, testkit.Table(m.table), testkit.Nodes(2), testkit.Each(func(i int, cfg *system.Config) {
				if i == 0 {
					cfg.Cluster.Role, cfg.Resources = system.Driver, raysys.Resources{}
				}
			}))
		})
	}
}

// TestLeavesAreNoRetries: a task that gave way three times is made again when its node dies, though that may happen once.
func TestLeavesAreNoRetries(t *testing.T) {
	m := newMarch()
	testkit.Virtual(t, func(k *testkit.Kit) {
		t, c := k.T(), k.Cluster()
		c.Ready()
		f := m.walk.With(raysys.Retries(1)).Go(k.Context(), way{"one", 10})
		for range 3 {
			k.Advance(90 * time.Second)
			i := int((*m.node.Load())[1] - '0')
			c.Drain(i)
			c.Restart(i)
			c.Ready()
		}
		k.Advance(90 * time.Second)
		c.Kill(int((*m.node.Load())[1] - '0'))
		if s, err := f.Get(k.Context()); err != nil || s.Attempt != 5 {
			t.Error(s, err)
		}
	}, testkit.Table(m.table), testkit.Nodes(3), testkit.Each(func(i int, cfg *system.Config) {
		if i == 0 {
			cfg.Cluster.Role, cfg.Resources = system.Driver, raysys.Resources{}
		}
	}))
}

// TestLeavingNot: on a node that stays ErrLeaving is an error as others, and without a cluster
// there is nothing to wait for.
func TestLeavingNot(t *testing.T) {
	if _, leaving := raysys.LeavesIn(t.Context()); leaving || raysys.Leaving(t.Context()) != nil {
		t.Error("a context of no turn leaves")
	}
	table := raysys.NewTable()
	gives := tasks.Define0In(table, "gives", func(ctx context.Context) (int, error) {
		if _, leaving := raysys.LeavesIn(ctx); leaving {
			return 0, errors.New("it leaves")
		}
		select {
		case <-raysys.Leaving(ctx):
			return 0, errors.New("the channel is closed")
		default:
		}
		return raysys.Attempt(ctx), raysys.ErrLeaving
	}).With(raysys.Retries(3))
	waits := tasks.Define0In(table, "waits", func(ctx context.Context) (int, error) {
		<-raysys.Leaving(ctx)
		return raysys.Attempt(ctx), nil
	})
	testkit.Virtual(t, func(k *testkit.Kit) {
		t, c, ctx := k.T(), k.Cluster(), k.Context()
		c.Ready()
		there := raysys.OnNode("n1")
		check := func() {
			t.Helper()
			var failed *raysys.TaskError
			if _, err := gives.With(there).Go(ctx).Get(ctx); !errors.As(err, &failed) || failed.Attempt != 1 || !errors.Is(err, raysys.ErrLeaving) || failed.Err != raysys.ErrLeaving && failed.Err.Error() != raysys.ErrLeaving.Error() {
				t.Error(err)
			}
		}
		check()
		f := waits.With(there).Go(ctx)
		k.Advance(time.Second)
		drain, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- c.Node(1).Drain(drain) }()
		if n, err := f.Get(ctx); n != 1 || err != nil {
			t.Error(n, err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}, testkit.Table(table), testkit.Nodes(2))
	k := testkit.New(t, testkit.Table(table))
	if _, err := gives.Go(k.Context()).Get(k.Context()); !errors.Is(err, raysys.ErrLeaving) {
		t.Error(err)
	}
}
