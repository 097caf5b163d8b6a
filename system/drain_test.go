package system_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/flaky"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// stall is where tasks and grains of these tests wait for the test, by name.
type stall struct{ begun, end chan struct{} }

var stalls sync.Map

// stallAt makes the place. The test lets go at its end at the latest.
func stallAt(t *testing.T, name string) *stall {
	s := &stall{make(chan struct{}), make(chan struct{})}
	stalls.Store(name, s)
	t.Cleanup(s.release)
	return s
}

func (s *stall) release() {
	select {
	case <-s.end:
	default:
		close(s.end)
	}
}

func waitAt(ctx context.Context, name string) error {
	v, _ := stalls.Load(name)
	s := v.(*stall)
	close(s.begun)
	select {
	case <-s.end:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// bundle is a value with references inside.
type bundle struct {
	Inner []raysys.Handle[[]byte]
	Pad   []byte
}

type staller struct{}

var (
	stallFor = tasks.DefineIn(table, "drain.stall", func(ctx context.Context, name string) (string, error) { return name, waitAt(ctx, name) })
	stallBig = tasks.DefineIn(table, "drain.big", func(ctx context.Context, name string) ([]byte, error) {
		return fill(1<<20, 7), waitAt(ctx, name)
	})
	putBytes = tasks.DefineIn(table, "drain.put", func(ctx context.Context, n int) (raysys.Handle[[]byte], error) {
		return raysys.Put(ctx, fill(n, 1)).Handle(), nil
	})
	putBundle = tasks.DefineIn(table, "drain.bundle", func(ctx context.Context, n int) (raysys.Handle[bundle], error) {
		inner := raysys.Put(ctx, fill(n, 1)).Handle()
		return raysys.Put(ctx, bundle{[]raysys.Handle[[]byte]{inner}, fill(n, 2)}).Handle(), nil
	})
	lengthOf = tasks.DefineIn(table, "drain.length", func(ctx context.Context, h raysys.Handle[[]byte]) (int, error) {
		b, err := h.Ref().Get(ctx)
		return len(b), err
	})
	stallers = grains.DefineIn[staller](table, "drain.staller")
	deafTurn = grains.Method(stallers, "deaf", func(_ *staller, _ context.Context, name string) (bool, error) {
		return true, waitAt(context.Background(), name)
	})
	stallTurn = grains.Method(stallers, "stall", func(_ *staller, ctx context.Context, name string) (bool, error) { return true, waitAt(ctx, name) })
)

// words keeps what a node tells its supervisor.
type words struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (w *words) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(b)
}

func (w *words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

// follow drains a node when an operator asks, as Run does.
func follow(ctx context.Context, n *system.Node) <-chan error {
	over, wanted := make(chan error, 1), n.DrainRequested()
	go func() {
		<-wanted
		over <- n.Drain(ctx)
	}()
	return over
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// state is what others know of a node.
func stateOf(t *testing.T, n *system.Node, name raysys.NodeID) string {
	t.Helper()
	s, err := n.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range s.Nodes {
		if m.Name == name {
			return m.State
		}
	}
	return "gone"
}

// leads is how many shards a node leads.
func leads(t *testing.T, n *system.Node, name raysys.NodeID) (led int) {
	t.Helper()
	s, err := n.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, sh := range s.Shards {
		if sh.Node == name {
			led++
		}
	}
	return led
}

// TestDrainCancelled: a node whose drain is taken back runs tasks and grains and leads shards as before, its supervisor
// knows, and it can be drained again.
func TestDrainCancelled(t *testing.T) {
	f := newFleet(t)
	var told words
	w1, _ := f.join("w1", system.Worker, func(cfg *system.Config) {
		cfg.Cluster.Labels, cfg.Cluster.Supervisor = map[string]string{"node": "w1"}, &told
	})
	f.place("w2", system.Worker)
	d, ctx := f.join("d", system.Driver)
	eventually(t, "w1 leads shards", func() bool { return leads(t, d, "w1") > 0 })
	s := stallAt(t, "cancelled")
	running := stallFor.With(on("w1")).Go(ctx, "cancelled")
	<-s.begun
	if err := d.CancelDrain(ctx, "w1"); err == nil || !strings.Contains(err.Error(), "it does not drain") {
		t.Errorf("a node that does not drain can be told to stay: %v", err)
	}
	over := follow(within(t, time.Minute), w1)
	if _, err := d.DrainNode(ctx, "w1"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "w1 drains, and leads no shard", func() bool { return stateOf(t, d, "w1") == inspect.NodeDraining })
	eventually(t, "the task is named as what keeps it", func() bool {
		list, err := d.Holding(ctx, "w1")
		return err == nil && slices.Contains(list, "task drain.stall of node d runs")
	})
	if err := d.CancelDrain(ctx, "w1"); err != nil {
		t.Fatal(err)
	}
	if err := <-over; !errors.Is(err, system.ErrDrainCancelled) {
		t.Fatalf("a drain that was taken back ended with %v", err)
	}
	if state := stateOf(t, d, "w1"); state != inspect.NodeActive {
		t.Errorf("after the drain was taken back the node is %s", state)
	}
	eventually(t, "w1 leads shards again", func() bool { return leads(t, d, "w1") > 0 })
	s.release()
	if v, err := running.Get(ctx); err != nil || v != "cancelled" {
		t.Errorf("the task that ran meanwhile: %q, %v", v, err)
	}
	if n, err := where.With(on("w1")).Go(ctx, 1).Get(ctx); err != nil || n != "w1 1" {
		t.Errorf("a task for the node that stayed: %q, %v", n, err)
	}
	homes := map[string]bool{}
	eventually(t, "grains are placed on w1 again", func() bool {
		h, err := home.Call(ctx, accounts.Get(fmt.Sprint("cancelled", len(homes)))).Get(ctx)
		homes[fmt.Sprint(h, len(homes))] = true
		return err == nil && h == "w1"
	})
	if got := told.String(); got != "draining\ndraining\nstaying\n" {
		t.Errorf("the supervisor was told %q", got)
	}
	over = follow(within(t, time.Minute), w1)
	inc, err := d.DrainNode(ctx, "w1")
	if err != nil {
		t.Fatal(err)
	}
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	if err := d.CancelDrain(ctx, "w1"); err == nil || !strings.Contains(err.Error(), "it has drained, and leaves") {
		t.Errorf("a node that has drained can be told to stay: %v", err)
	}
	if err := w1.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if came, err := d.AwaitDrained(ctx, "w1", inc); err != nil || came == nil || came.Took == 0 {
		t.Errorf("who asked for the drain hears of it after the node has left: %+v, %v", came, err)
	}
	if came, err := d.AwaitDrained(ctx, "w1", inc); err != nil || came != nil {
		t.Errorf("whoever asks after it has left hears %+v, %v", came, err)
	}
}

// TestDrainCancelledLate: a drain may be taken back until it is over. The node leads shards again although it had decided to
// take none, and the copies that others made of its objects go.
func TestDrainCancelledLate(t *testing.T) {
	f := newFleet(t)
	kv := flaky.Wrap(f.kv)
	var told words
	w1, _ := f.join("w1", system.Worker, func(cfg *system.Config) {
		cfg.Cluster.Labels, cfg.Cluster.Store, cfg.Cluster.Supervisor = map[string]string{"node": "w1"}, kv, &told
	})
	w2, _ := f.place("w2", system.Worker)
	d, ctx := f.join("d", system.Driver)
	h, err := putBytes.With(on("w1")).Go(ctx, 200_000).Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "w1 leads shards", func() bool { return leads(t, d, "w1") > 0 })
	// A drain ends only when all shards have been given up: one of them waits in the store until the drain is taken back. It is not
	// that of the object, without whose leader no copy is made.
	other := map[string]bool{}
	for shard := range system.Shards(w1) {
		other[shardlog.LeaderKey(shard)] = !slices.Contains(system.ObjectShards(w1), shard)
	}
	goOn := make(chan struct{})
	letGo := sync.OnceFunc(func() { close(goOn) })
	t.Cleanup(letGo)
	var held atomic.Bool
	kv.Hook(func(c flaky.Call) flaky.Fault {
		shard := func(op store.Op) bool { return other[op.Key] && op.Verb.Writes() }
		if slices.ContainsFunc(c.Ops, shard) && held.CompareAndSwap(false, true) {
			<-goOn
		}
		return flaky.None
	})
	over := follow(within(t, time.Minute), w1)
	if _, err := d.DrainNode(ctx, "w1"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "w1 takes no shard any more", func() bool { return system.Retires(w1) })
	if got := w2.Objects().Objects; got != 1 {
		t.Errorf("w2 has %d objects when all of w1 has been moved, want the copy of one", got)
	}
	stays := make(chan error, 1)
	go func() { stays <- d.CancelDrain(ctx, "w1") }()
	eventually(t, "w1 hears that it stays", func() bool { return strings.HasSuffix(told.String(), "staying\n") })
	letGo()
	if err := <-stays; err != nil {
		t.Error(err)
	}
	if err := <-over; !errors.Is(err, system.ErrDrainCancelled) {
		t.Fatalf("a drain that was taken back ended with %v", err)
	}
	eventually(t, "w1 leads shards again after its drain was taken back", func() bool { return system.Leads(w1) > 0 })
	eventually(t, "the copy that w2 made for a drain that was taken back goes", func() bool { return w2.Objects().Objects == 0 })
	if b, err := h.Ref().Get(ctx); err != nil || len(b) != 200_000 {
		t.Errorf("the object of a node that stays: %d bytes, %v", len(b), err)
	}
}

// TestDrainTellsWhatIsLost: objects that no other node can take are no error of the drain, and the operator hears of
// them.
func TestDrainTellsWhatIsLost(t *testing.T) {
	f := newFleet(t)
	w1, _ := f.place("w1", system.Worker)
	f.place("w2", system.Worker)
	d, ctx := f.join("d", system.Driver)
	good, err := putBytes.With(on("w1")).Go(ctx, 200_000).Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	bad, err := putBundle.With(on("w1")).Go(ctx, 200_000).Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	over := follow(within(t, time.Minute), w1)
	inc, err := d.DrainNode(ctx, "w1")
	if err != nil {
		t.Fatal(err)
	}
	type ending struct {
		came *inspect.Drained
		err  error
	}
	heard := make(chan ending, 1)
	go func() {
		came, err := d.AwaitDrained(ctx, "w1", inc)
		heard <- ending{came, err}
	}()
	if err := <-over; err != nil {
		t.Errorf("a drain that lost an object failed: %v", err)
	}
	if err := w1.Close(ctx); err != nil {
		t.Fatal(err)
	}
	e := <-heard
	if e.err != nil || e.came == nil || e.came.Left != 1 || e.came.Lost != 1 || !strings.Contains(e.came.Why, "holds references") {
		t.Errorf("who asked for the drain heard %+v, %v; want one object left, one lost because it holds references", e.came, e.err)
	}
	if b, err := good.Ref().Get(ctx); err != nil || len(b) != 200_000 {
		t.Errorf("the object that was left: %d bytes, %v", len(b), err)
	}
	if _, err := bad.Ref().Get(ctx); !errors.Is(err, raysys.ErrObjectLost) {
		t.Errorf("the object that was lost: %v", err)
	}
}

// TestCloseNamesWhatHolds: the end of Close's time names the grains that are in a turn still.
func TestCloseNamesWhatHolds(t *testing.T) {
	n, err := system.New(system.Config{Table: table})
	if err == nil {
		err = n.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	g := stallAt(t, "deaf grain")
	held := deafTurn.Call(n.Context(t.Context()), stallers.Get("g"), "deaf grain")
	<-g.begun
	brief, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := n.Close(brief); err == nil || !strings.Contains(err.Error(), "1 grains are still in a turn: grain drain.staller/g.deaf") {
		t.Errorf("a Close that ran out of time says %v, and does not name the grain", err)
	}
	runtime.KeepAlive(held)
}

// TestDrainNamesWhatHolds: the end of a drain's time names the tasks and grains that held it.
func TestDrainNamesWhatHolds(t *testing.T) {
	f := newFleet(t)
	w, _ := f.join("w", system.Worker)
	_, ctx := f.join("d", system.Driver)
	s, g := stallAt(t, "held task"), stallAt(t, "held grain")
	refs := []any{stallFor.Go(ctx, "held task"), stallTurn.Call(ctx, stallers.Get("g"), "held grain")}
	<-s.begun
	<-g.begun
	brief, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	err := w.Drain(brief)
	for _, part := range []string{"1 grains are still here: grain drain.staller/g.stall", "1 of others: task drain.stall of node d runs"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("a drain that ran out of time says %v, without %q", err, part)
		}
	}
	if came := w.Drained(); err == nil || came.Error != err.Error() {
		t.Errorf("what came of it is %+v, and not %v", came, err)
	}
	runtime.KeepAlive(refs)
}

// TestDrainNamesNamedTasks: a node names the detached tasks with names that it has submitted or taken over, in its status and where a drain of it
// does not end, wherever they run.
func TestDrainNamesNamedTasks(t *testing.T) {
	f := newFleet(t)
	w, ctx := f.join("w", system.Both)
	v, _ := f.join("v", system.Worker)
	meet(t, w, v)
	const job = "named task \"collect\" (drain.stall, attempt 1, runs)"
	s := stallAt(t, "collect")
	r := stallFor.With(raysys.Detached("collect"), raysys.Prefer(raysys.OnNode("v"))).Go(ctx, "collect")
	<-s.begun
	st, err := v.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []inspect.NamedTask{{Name: "collect", Function: "drain.stall", Attempt: 1, State: "runs"}}
	for _, n := range st.Nodes {
		if at := n.Name == "w"; at != slices.Equal(n.NamedTasks, want) {
			t.Errorf("%s has the jobs %+v", n.Name, n.NamedTasks)
		}
	}
	brief, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	drained := make(chan error, 1)
	go func() { drained <- w.Drain(brief) }()
	settles(t, "the node that drains is kept by the job", func() bool {
		list, err := v.Holding(t.Context(), "w")
		return slices.Contains(list, job) || err != nil
	})
	if err := <-drained; err == nil || !strings.Contains(err.Error(), job) {
		t.Errorf("a drain that ran out of time says %v, and does not name the job", err)
	}
	r.Cancel()
}

// TestEveryoneLeaves: workers that are all asked to go do so within seconds, whatever runs, lives or lies on them, and
// it is no error: there is nowhere to move anything.
func TestEveryoneLeaves(t *testing.T) {
	f := newFleet(t)
	worker := func(i int) raysys.NodeID { return raysys.NodeID(fmt.Sprint("w", i%3)) }
	var workers []*system.Node
	for i := range 3 {
		w, _ := f.place(worker(i), system.Worker)
		workers = append(workers, w)
	}
	_, ctx := f.join("d", system.Driver)
	var held []any
	for i := range 3 {
		h, err := putBytes.With(on(worker(i))).Go(ctx, 200_000).Get(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := lengthOf.With(on(worker(i+1))).Go(ctx, h).Get(ctx); err != nil {
			t.Fatal(err)
		}
		held = append(held, h)
	}
	for i := range 30 {
		if _, err := deposit.Call(ctx, accounts.Get(fmt.Sprint("leaving", i)), 1).Get(ctx); err != nil {
			t.Fatal(err)
		}
	}
	s := stallAt(t, "for ever")
	running := stallFor.With(on("w1"), raysys.Retries(0)).Go(ctx, "for ever")
	<-s.begun
	grace := within(t, 50*time.Second)
	errs := make(chan error, len(workers))
	for _, w := range workers {
		go func() { errs <- errors.Join(w.Drain(grace), w.Close(grace)) }()
	}
	for range workers {
		if err := <-errs; err != nil {
			t.Errorf("all workers leave, and one says %v", err)
		}
	}
	if grace.Err() != nil {
		t.Error("workers that leave together took all of their grace")
	}
	lost := 0
	for _, w := range workers {
		lost += w.Drained().Lost
	}
	if lost != 3 { // the driver stays, and has references
		t.Errorf("%d objects are said to be lost, want the 3 that the driver holds", lost)
	}
	soon, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if v, err := running.Get(soon); err == nil {
		t.Errorf("the task that was cut short answered %q", v)
	} else if !errors.Is(err, raysys.ErrNodeDead) {
		t.Errorf("the task that was cut short failed with %v", err)
	}
	runtime.KeepAlive(held)
}

// TestFinishedDrivers: what tasks of a driver that has left had borrowed is not left to others, though nobody has
// collected it yet.
func TestFinishedDrivers(t *testing.T) {
	f := newFleet(t)
	w1, _ := f.place("w1", system.Worker)
	f.place("w2", system.Worker)
	d, ctx := f.join("d", system.Driver)
	for range 8 {
		h, err := putBytes.With(on("w1")).Go(ctx, 200_000).Get(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := lengthOf.With(on("w2")).Go(ctx, h).Get(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	if err := w1.Drain(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	if came := w1.Drained(); came.Left != 0 || came.Lost != 0 {
		t.Errorf("nobody needs anything any more, and the drain says %+v", came)
	}
}

// TestObjectsDrainAfterTasks: the large result of a task that ends while its node drains is left to another node, since
// whoever reads it comes later than that.
func TestObjectsDrainAfterTasks(t *testing.T) {
	f := newFleet(t)
	w1, _ := f.place("w1", system.Worker)
	f.place("w2", system.Worker)
	d, ctx := f.join("d", system.Driver)
	s := stallAt(t, "result")
	result := stallBig.With(on("w1")).Go(ctx, "result")
	<-s.begun
	over := make(chan error, 1)
	go func() { over <- w1.Drain(within(t, time.Minute)) }()
	eventually(t, "w1 waits for the task", func() bool {
		list, err := d.Holding(ctx, "w1")
		return err == nil && len(list) == 1
	})
	s.release()
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	if err := w1.Close(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	if b, err := result.Get(ctx); err != nil || !bytes.Equal(b, fill(1<<20, 7)) {
		t.Errorf("a result that a draining node made is lost with it: objects drain after tasks: %d bytes, %v", len(b), err)
	}
}

// TestRunDrained: a worker that was asked to drain ends well although an object was lost with it, and has told its
// supervisor that the end is final; one that cannot be made says so too.
func TestRunDrained(t *testing.T) {
	f := newFleet(t)
	var told words
	cfg := system.Config{
		Name: "w1", Table: table, Namespace: "test",
		Cluster: &system.ClusterConfig{Store: f.kv, Role: system.Worker, Labels: map[string]string{"node": "w1"}, Supervisor: &told},
	}
	ran := make(chan error, 1)
	go func() { ran <- system.Run(context.Background(), cfg, nil) }()
	f.place("w2", system.Worker)
	d, ctx := f.join("d", system.Driver)
	eventually(t, "w1 has joined", func() bool { return stateOf(t, d, "w1") == inspect.NodeActive })
	bad, err := putBundle.With(on("w1")).Go(ctx, 200_000).Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	inc, err := d.DrainNode(ctx, "w1")
	if err != nil {
		t.Fatal(err)
	}
	came, err := d.AwaitDrained(ctx, "w1", inc)
	if err != nil || came == nil || came.Lost != 1 {
		t.Errorf("who asked for the drain heard %+v, %v; want one object lost", came, err)
	}
	if err := <-ran; err != nil {
		t.Errorf("a drain that was asked for, and lost an object, ended the program with %v", err)
	}
	if got := told.String(); !strings.HasPrefix(got, "draining\n") || strings.Contains(got, "staying") {
		t.Errorf("the supervisor was told %q", got)
	}
	runtime.KeepAlive(bad)

	var refused words
	cfg.Cluster = &system.ClusterConfig{Store: f.kv, Role: "watcher", Supervisor: &refused}
	if err := system.Run(context.Background(), cfg, nil); !errors.Is(err, system.ErrConfig) || refused.String() != "misconfigured\n" {
		t.Errorf("a node that cannot be made: %v, and the supervisor was told %q", err, refused.String())
	}
}
