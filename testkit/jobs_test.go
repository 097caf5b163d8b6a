package testkit_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// job is a detached task that goes on for ever, and how the test sees it.
type job struct {
	k     *testkit.Kit
	task  tasks.Task[int, int]
	begun atomic.Int64
	ticks atomic.Int64
	at    atomic.Value // raysys.NodeID where it runs
}

// jobs calls f with a cluster of three workers and a job that has not begun.
func jobs(t *testing.T, f func(j *job, ctx context.Context, t testing.TB)) {
	t.Helper()
	j, tb := &job{}, raysys.NewTable()
	j.task = tasks.DefineIn(tb, "job", func(ctx context.Context, _ int) (int, error) {
		j.at.Store(system.NodeOf(ctx).Name())
		for j.begun.Add(1); ; j.ticks.Add(1) {
			select {
			case <-ctx.Done():
				return 0, context.Cause(ctx)
			case <-time.After(time.Second):
			}
		}
	})
	testkit.Virtual(t, func(k *testkit.Kit) {
		j.k = k
		f(j, k.Context(), k.T())
	}, testkit.Nodes(3), testkit.Table(tb))
}

// node is the number of the node where the job runs.
func (j *job) node() (i int) {
	_, _ = fmt.Sscanf(string(j.at.Load().(raysys.NodeID)), "n%d", &i)
	return i
}

// dies kills and restarts a node: where the job runs, or its submitter where that is a worker.
func (j *job) dies(t testing.TB, submitter bool) {
	t.Helper()
	i := j.node()
	if submitter {
		st, err := j.k.Node().Status(j.k.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range st.Nodes {
			if len(n.NamedTasks) > 0 {
				_, _ = fmt.Sscanf(string(n.Name), "n%d", &i)
			}
		}
	}
	j.k.Cluster().Kill(i)
	j.k.Advance(10 * time.Second)
	j.k.Cluster().Restart(i)
}

// on is a context of a driver on node i.
func (j *job) on(i int) context.Context { return j.k.Cluster().Node(i).Context(context.Background()) }

// outcome is the failure of the job by a reference; context.DeadlineExceeded while it runs.
func (j *job) outcome(r raysys.Ref[int]) error {
	ctx, cancel := context.WithTimeout(j.k.Context(), time.Minute)
	defer cancel()
	_, err := r.Get(ctx)
	return err
}

// Until when a job has ended.
const (
	whenTold   = 3 * time.Second  // its submitter was told
	whenLooked = 15 * time.Second // or has looked at the record
)

// over checks that the job has ended, and that nothing runs it again.
func (j *job) over(t testing.TB, by time.Duration) {
	t.Helper()
	j.k.Advance(by)
	n, begun := j.ticks.Load(), j.begun.Load()
	j.k.Advance(5 * time.Minute)
	if m := j.ticks.Load(); m != n || j.begun.Load() != begun {
		t.Errorf("it has run for %d s more, and has begun %d times more", m-n, j.begun.Load()-begun)
	}
}

// TestJobEnds: Cancel of any reference to a job ends it, and so does Forget, on whichever node it runs, also when its submitter is dead: no
// worker runs it again.
func TestJobEnds(t *testing.T) {
	cancelled := func(t testing.TB, r raysys.Ref[int]) {
		t.Helper()
		if !r.Cancel() || r.Cancel() {
			t.Error("the first Cancel says that the reference had settled, or the second that it had not")
		}
	}
	for _, c := range []struct {
		name    string
		end     func(t testing.TB, j *job, ctx context.Context, own raysys.Ref[int])
		removed bool // the name is free
		lives   bool // the submitter does: else another comes before the end
	}{
		{name: "Lookup", end: func(t testing.TB, _ *job, ctx context.Context, _ raysys.Ref[int]) {
			cancelled(t, raysys.Lookup[int](ctx, "job"))
		}},
		{name: "Lookup on another node, waited for", lives: true, end: func(t testing.TB, j *job, _ context.Context, _ raysys.Ref[int]) {
			r := raysys.Lookup[int](j.on(3), "job")
			short, cancel := context.WithTimeout(j.on(3), time.Second)
			defer cancel()
			if _, err := r.Get(short); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the job that runs gave %v", err)
			}
			cancelled(t, r)
		}},
		{name: "joined", lives: true, end: func(t testing.TB, j *job, ctx context.Context, _ raysys.Ref[int]) {
			cancelled(t, j.task.With(raysys.Detached("job")).Go(ctx, 1))
		}},
		{name: "the submitter's", lives: true, end: func(t testing.TB, _ *job, _ context.Context, own raysys.Ref[int]) { cancelled(t, own) }},
		{name: "Forget", removed: true, end: func(t testing.TB, _ *job, ctx context.Context, _ raysys.Ref[int]) {
			if err := raysys.Forget(ctx, "job"); err != nil {
				t.Error(err)
			}
		}},
	} {
		for _, dead := range []bool{false, true} {
			name := c.name
			if dead {
				name += ", the submitter is dead"
			}
			if dead && c.lives {
				continue
			}
			t.Run(name, func(t *testing.T) {
				jobs(t, func(j *job, ctx context.Context, t testing.TB) {
					own := j.task.With(raysys.Detached("job"), raysys.Prefer(raysys.OnNode("n2"))).Go(j.on(1), 1)
					j.k.Advance(90 * time.Second)
					if j.begun.Load() != 1 {
						t.Fatalf("it has begun %d times", j.begun.Load())
					}
					if dead {
						j.k.Cluster().Kill(1) // the cluster does not know yet
					}
					c.end(t, j, ctx, own)
					by := whenTold
					if dead { // a worker may have taken it at that moment
						by = whenLooked
					}
					j.over(t, by)
					err := j.outcome(raysys.Lookup[int](ctx, "job"))
					if c.removed && !errors.Is(err, raysys.ErrNotFound) || !c.removed && !errors.Is(err, raysys.ErrCancelled) {
						t.Errorf("under its name there is %v", err)
					}
					if err := j.outcome(own); !dead && !errors.Is(err, raysys.ErrCancelled) {
						t.Errorf("the submitter has %v, want ErrCancelled", err)
					}
					if dead {
						j.k.Cluster().Restart(1)
					}
				})
			})
		}
	}
}

// TestJobEndsUntold: a submitter that nobody can tell of the Cancel finds it in the record.
func TestJobEndsUntold(t *testing.T) {
	jobs(t, func(j *job, ctx context.Context, t testing.TB) {
		j.task.With(raysys.Detached("job"), raysys.Prefer(raysys.OnNode("n1"))).Go(j.on(1), 1)
		j.k.Advance(15 * time.Second)
		r := raysys.Lookup[int](ctx, "job")
		j.k.Cluster().StoreDown()
		if !r.Cancel() { // after a while
			t.Error("the reference had settled")
		}
		j.k.Cluster().StoreUp()
		j.over(t, whenLooked)
	})
}

// TestJobOutlivesNodes: a node that dies later than a minute after the start of an attempt is no attempt, also with Retries(0), and also where it is
// the submitter.
func TestJobOutlivesNodes(t *testing.T) {
	for _, of := range []string{"driver", "worker"} {
		t.Run("submitted by a "+of, func(t *testing.T) {
			jobs(t, func(j *job, ctx context.Context, t testing.TB) {
				if of == "worker" {
					ctx = j.on(1)
				}
				j.task.With(raysys.Detached("job"), raysys.Retries(0)).Go(ctx, 1)
				for d := range int64(6) {
					j.k.Advance(90 * time.Second)
					if j.begun.Load() != d+1 {
						t.Fatalf("after %d deaths it has begun %d times: %v", d, j.begun.Load(), j.outcome(raysys.Lookup[int](j.k.Context(), "job")))
					}
					j.dies(t, of == "worker")
				}
				raysys.Lookup[int](j.k.Context(), "job").Cancel()
				j.over(t, whenLooked)
			})
		})
	}
}

// TestJobEndsItsNodes: a job ends after as many deaths as it has Retries, where each node dies within a minute of its start: the job may be what kills them.
func TestJobEndsItsNodes(t *testing.T) {
	for _, of := range []string{"driver", "worker"} {
		t.Run("submitted by a "+of, func(t *testing.T) {
			jobs(t, func(j *job, ctx context.Context, t testing.TB) {
				if of == "worker" {
					ctx = j.on(1)
				}
				j.task.With(raysys.Detached("job"), raysys.Retries(2)).Go(ctx, 1)
				for d := range int64(3) {
					j.k.Advance(20 * time.Second)
					if j.begun.Load() != d+1 {
						t.Fatalf("after %d deaths it has begun %d times", d, j.begun.Load())
					}
					j.dies(t, of == "worker")
				}
				if err := j.outcome(raysys.Lookup[int](j.k.Context(), "job")); !errors.Is(err, raysys.ErrNodeDead) {
					t.Errorf("it gave %v, want ErrNodeDead", err)
				}
				j.over(t, whenLooked)
			})
		})
	}
}
