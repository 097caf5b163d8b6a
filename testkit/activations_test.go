package testkit_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

func TestSingleActivation(t *testing.T) {
	for name, c := range map[string]struct {
		commits string // life and ETag of each commit, in the order of the reports
		want    string // in the failure; "" for none
	}{
		"one life":                      {"a1-1 a1-2 a1-3", ""},
		"one after the other":           {"a1-1 a1-2 b1-3 c2-1", ""},
		"reported late":                 {"b1-3 a1-1 a1-2", ""},
		"numbers, not text":             {"a1-9 b1-a c1-10", ""},
		"the old one commits again":     {"a1-1 b1-2 a1-3", "committed on node of a (version 1-3) after another activation of it on node of b had (1-2)"},
		"the same, reported late":       {"a1-3 a1-1 b1-2", "committed on node of a (version 1-3)"},
		"two of one version":            {"a1-1 b1-1", "the same version 1-1"},
		"one life, twice the version":   {"a1-1 a1-1", "one ETag, 1-1"},
		"an epoch that comes back late": {"a1-1 b2-1 a3-1", "version 3-1"},
	} {
		t.Run(name, func(t *testing.T) {
			var events [][5]any
			for i, w := range strings.Fields(c.commits) {
				events = append(events, [5]any{"counter/x", w[:1], "commit", i, w[1:]})
			}
			f := &fake{name: t.Name()}
			f.run(func() { testkit.SingleActivation(f, testkit.Reported(events...)) })
			if c.want == "" {
				f.want(t)
			} else {
				f.want(t, c.want)
			}
		})
	}
}

func TestOverlaps(t *testing.T) {
	a := testkit.Reported(
		[5]any{"g/1", "a", "begin", 0, nil}, [5]any{"g/1", "a", "turn", 1, nil},
		[5]any{"g/1", "b", "begin", 10, nil}, [5]any{"g/1", "b", "turn", 11, nil}, [5]any{"g/1", "b", "turn", 40, nil},
		[5]any{"g/1", "a", "turn", 14, nil}, // 3 s after b's first
		[5]any{"g/2", "c", "begin", 0, nil}, [5]any{"g/2", "c", "turn", 9, nil},
		[5]any{"g/2", "d", "begin", 8, nil}, [5]any{"g/2", "d", "turn", 10, nil}, // d began before c's last turn, but served after it
		[5]any{"g/3", "e", "begin", 0, nil}, [5]any{"g/3", "f", "begin", 1, nil}, // neither did anything
	)
	got := a.Overlaps()
	if want := []testkit.Overlap{{Grain: "g/1", Old: "node of a", New: "node of b", Window: 3 * time.Second}}; !cmp.Equal(got, want) {
		t.Errorf("overlaps %+v, want %+v", got, want)
	}
	if lives, commits := a.Count(); lives != 6 || commits != 0 {
		t.Errorf("%d lives, %d commits", lives, commits)
	}
}

// recorded is a counter that reports its lives.
type recorded struct {
	n    grains.State[int]
	life *testkit.Activation
}

var lives = testkit.NewActivations("recorded")

func (r *recorded) OnActivate(ctx context.Context) error { r.life = lives.Begin(ctx); return nil }

func (r *recorded) Add(ctx context.Context, d int) (int, error) {
	defer r.life.Turn()
	r.n.Value += d
	err := r.n.Write(ctx)
	r.life.Committed(r.n.ETag(), err)
	return r.n.Value, err
}

var (
	recordeds = grains.DefineIn[recorded](table, "recorded")
	addTo     = grains.Method(recordeds, "add", (*recorded).Add)

	stuck = tasks.Define0In(table, "stuck", func(ctx context.Context) (int, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	})
)

func TestActivationsOfRealGrains(t *testing.T) {
	inVirtual(t, func(t testing.TB, k *testkit.Kit, c *testkit.Cluster) {
		ctx := k.Context()
		before, _ := lives.Count()
		h := testkit.NewHistory()
		for i := range 40 {
			op := h.Begin(0, "x", testkit.Add(1))
			n, err := addTo.Call(ctx, recordeds.Get("x"), 1).Get(ctx)
			op.End(n, err)
			if i == 20 {
				c.Drain(1)
				c.Drain(2)
				c.Restart(1)
				c.Restart(2)
				c.Drain(3)
			}
		}
		if answered, _, _ := h.Counts(); answered != 40 {
			t.Errorf("%d of 40 calls were answered", answered)
		}
		testkit.Linearizable(t, h, testkit.Register())
		testkit.SingleActivation(t, lives)
		if o := lives.Overlaps(); len(o) > 0 {
			t.Errorf("overlaps %v", o)
		}
		if n, commits := lives.Count(); n-before < 2 || commits < 40 {
			t.Errorf("%d lives and %d commits were reported", n-before, commits)
		}
	})
}

func TestNoOrphans(t *testing.T) {
	inVirtual(t, func(t testing.TB, k *testkit.Kit, c *testkit.Cluster) {
		for i := range 100 {
			if _, err := sum.Go(k.Context(), box{Parts: []int{i}}).Get(k.Context()); err != nil {
				t.Error(err)
			}
		}
		testkit.NoOrphans(k)
	})
	f := &fake{}
	testkit.Virtual(t, func(*testkit.Kit) {
		f.run(func() {
			k := testkit.New(f, testkit.Seed(1), testkit.Table(table), testkit.Nodes(1))
			stuck.Go(k.Context())
			testkit.NoOrphans(k)
		})
	}, testkit.Table(table))
	f.want(t, "n1 has 1 tasks of other nodes")
}
