package grainengine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/golden"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/internal/replies"
	"github.com/raysys/raysys/internal/wire"
)

// errTorn is an error of a method that other nodes know.
var errTorn = raysys.ErrNotFound

// vault is a durable grain. runs counts its turns, those that did not count too.
type vault struct {
	balance grains.State[int]
	notes   grains.State[[]string]
}

type vaults struct {
	net   *fakeNet
	kind  grains.Kind[vault]
	runs  *atomic.Int64
	add   grains.Func[vault, int, int]
	fail  grains.Act[vault, int] // changes, and an error with the number of the run
	fall  grains.Act[vault, int] // the same, and a panic
	both  grains.Act[vault, string]
	clear grains.Act0[vault]
	get   grains.Func0[vault, int]
}

// listener is a plain grain.
type listener struct{ _ int }

func newVaults(t testing.TB, opts ...grains.Option) *vaults {
	tb := raysys.NewTable()
	v := &vaults{net: newNet(t, tb), runs: &atomic.Int64{}}
	v.kind = grains.DefineIn[vault](tb, "vault", append(opts, grains.Durable())...)
	v.add = grains.Method(v.kind, "add", func(g *vault, _ context.Context, d int) (int, error) {
		v.runs.Add(1)
		g.balance.Value += d
		return g.balance.Value, nil
	})
	v.fail = grains.Action(v.kind, "fail", func(g *vault, _ context.Context, d int) error {
		g.balance.Value += d
		return fmt.Errorf("%w: run %d", errTorn, v.runs.Add(1))
	})
	v.fall = grains.Action(v.kind, "fall", func(g *vault, _ context.Context, d int) error {
		g.balance.Value += d
		panic("fall")
	})
	v.both = grains.Action(v.kind, "both", func(g *vault, ctx context.Context, s string) error {
		g.notes.Value = append(g.notes.Value, s)
		g.balance.Value++
		return errors.Join(g.notes.Write(ctx), g.balance.Write(ctx))
	})
	v.clear = grains.Action0(v.kind, "clear", func(g *vault, ctx context.Context) error { return g.balance.Clear(ctx) })
	v.get = grains.Method0(v.kind, "get", func(g *vault, _ context.Context) (int, error) {
		v.runs.Add(1)
		return g.balance.Value, nil
	}).ReadOnly()
	return v
}

// committed is how many replies were stored, and kept how many of a grain still are.
func (v *vaults) committed() int {
	v.net.store.mu.Lock()
	defer v.net.store.mu.Unlock()
	return v.net.store.committed
}

func (v *vaults) kept(key string) int {
	v.net.store.mu.Lock()
	defer v.net.store.mu.Unlock()
	return len(v.net.store.replies[idOf(v.kind.Get(key))])
}

// TestDurableTurn: what a turn leaves in the States is stored with its reply, without a Write; an error and a panic give
// back what they held before.
func TestDurableTurn(t *testing.T) {
	v := newVaults(t)
	a, b := v.net.add("a"), v.net.add("b")
	ctx := a.context()
	g := v.kind.Get("x")
	v.net.put(idOf(g), b)
	wants(t, ctx, v.add.Call(ctx, g, 5), 5)
	nodetest.Fails(t, ctx, v.fail.Call(ctx, g, 100), errTorn)
	wants(t, ctx, v.get.Call(ctx, g), 5)
	nodetest.Fails(t, ctx, v.fall.Call(ctx, g, 100), raysys.ErrPanic)
	wants(t, ctx, v.get.Call(ctx, g), 5)
	ends(t, ctx, v.both.Call(ctx, g, "rent"))
	if n := v.committed(); n != 4 {
		t.Errorf("%d replies were stored for 4 calls that are no reads: an error is an outcome too", n)
	}
	if r := v.net.store.record(idOf(g), "notes"); !r.Exists {
		t.Error("the second State of the turn was not stored")
	}
	v.net.put(idOf(g), a) // the activation on b does not know
	wants(t, ctx, v.add.Call(ctx, g, 1), 7)
	ends(t, ctx, v.clear.Call(ctx, g))
	wants(t, ctx, v.get.Call(ctx, g), 0)
	if r := v.net.store.record(idOf(g), "balance"); r.Exists {
		t.Error("Clear left the record of the State")
	}
	wants(t, ctx, v.add.Call(ctx, g, 2), 2)
}

// TestOutputGate: later turns go on with what is not stored yet; their replies, those of reads too, wait for it, and leave in order.
func TestOutputGate(t *testing.T) {
	v := newVaults(t)
	a, b := v.net.add("a"), v.net.add("b")
	far, near := a.context(), b.context()
	g := v.kind.Get("x")
	v.net.put(idOf(g), b)
	wants(t, far, v.add.Call(far, g, 1), 1)
	saves := v.net.store.seq
	let := v.net.slowly("commit")
	first := v.add.Call(far, g, 10)
	nodetest.Eventually(t, "it commits", func() bool { return v.net.pending() == 1 })
	read := v.get.Call(far, g)
	second, third := v.add.Call(far, g, 100), v.add.Call(near, g, 1000)
	last := v.get.Call(near, g)
	nodetest.Eventually(t, "all turns run", func() bool { return v.runs.Load() == 6 })
	v.get.Call(near, g)
	nodetest.Eventually(t, "all turns are over", func() bool { return v.runs.Load() == 7 })
	for name, done := range map[string]bool{
		"a reply": settled(first) || settled(second) || settled(third), "a read of what is not stored": settled(read) || settled(last),
	} {
		if done {
			t.Errorf("%s left before the commit", name)
		}
	}
	let()
	wants(t, far, first, 11)
	if got, err := read.Get(far); err != nil || got < 11 {
		t.Error(got, err)
	}
	x, err1 := second.Get(far)
	y, err2 := third.Get(near)
	if err1 != nil || err2 != nil || max(x, y) != 1111 {
		t.Error(x, err1, y, err2)
	}
	if got, err := last.Get(near); err != nil || got < 1011 {
		t.Error(got, err)
	}
	if n := v.net.store.seq - saves; n != 2 {
		t.Errorf("%d commits for a turn and those that ended meanwhile, want 2", n)
	}
}

// TestRefusedCommit: when the grain is elsewhere, the turn that is being committed and all after it run again there, and
// each counts once.
func TestRefusedCommit(t *testing.T) {
	v := newVaults(t)
	a, b, c := v.net.add("a"), v.net.add("b"), v.net.add("c")
	far, near := a.context(), b.context()
	g := v.kind.Get("x")
	v.net.put(idOf(g), b)
	wants(t, far, v.add.Call(far, g, 1), 1)
	let := v.net.slowly("commit")
	first := v.add.Call(near, g, 10)
	nodetest.Eventually(t, "it commits", func() bool { return v.net.pending() == 1 })
	refs := []raysys.Ref[int]{first, v.add.Call(far, g, 100), v.add.Call(near, g, 1000)}
	read := v.get.Call(far, g)
	nodetest.Eventually(t, "all turns run", func() bool { return v.runs.Load() == 5 })
	v.net.put(idOf(g), c)
	let()
	most := 0
	for i, r := range refs {
		got, err := r.Get(far)
		if err != nil {
			t.Errorf("call %d was not repeated: %v", i, err)
		}
		most = max(most, got)
	}
	if most != 1111 {
		t.Errorf("the calls made %d of 1, want 1111: one was lost, or counted twice", most)
	}
	if got, err := read.Get(far); err != nil || got > 1111 {
		t.Error(got, err)
	}
	if c.engine.Activations("vault") != 1 {
		t.Error("it is not on c")
	}
}

// TestUnknownCommit: a commit whose answer is lost counts once, whether it came through, did not, or comes through later.
func TestUnknownCommit(t *testing.T) {
	for _, how := range []fault{saveLost, saveStored, saveDelayed} {
		v := newVaults(t)
		a, b := v.net.add("a"), v.net.add("b")
		ctx := a.context()
		g := v.kind.Get("x")
		v.net.put(idOf(g), b)
		wants(t, ctx, v.add.Call(ctx, g, 1), 1)
		s := v.net.store
		list := []fault{how}
		s.mu.Lock()
		s.onSave = func(graindir.ID, string) fault {
			if len(list) == 0 {
				return saveWell
			}
			f := list[0]
			list = list[1:]
			return f
		}
		s.mu.Unlock()
		wants(t, ctx, v.add.Call(ctx, g, 10), 11)
		s.arrive()
		wants(t, ctx, v.add.Call(ctx, g, 100), 111)
		if n := v.committed(); n != 3 {
			t.Errorf("%d replies were stored for 3 calls", n)
		}
	}
}

// TestRepeatGetsTheReply: a call whose answer is lost with the link, or with the node, is made again by the runtime and gets
// its first outcome, an error too.
func TestRepeatGetsTheReply(t *testing.T) {
	for _, node := range []bool{false, true} {
		for _, when := range []string{"before the commit", "after the commit"} {
			v := newVaults(t)
			a, b, c := v.net.add("a"), v.net.add("b"), v.net.add("c")
			ctx := a.context()
			g := v.kind.Get("x")
			v.net.put(idOf(g), b)
			wants(t, ctx, v.add.Call(ctx, g, 1), 1)
			let := v.net.slowly("commit")
			sum, failed := v.add.Call(ctx, g, 10), v.fail.Call(ctx, g, 1)
			nodetest.Eventually(t, "it commits", func() bool { return v.net.pending() == 1 && v.runs.Load() == 3 })
			lose := func() { b.cut(errors.New("reset by test")) }
			if node {
				v.on(c)
				lose = b.kill
			}
			if when == "before the commit" {
				lose()
				let()
			} else {
				for _, end := range v.net.linkBetween(a, b).ends {
					if end.local == a {
						end.pause(true)
					}
				}
				let()
				nodetest.Eventually(t, "they are stored", func() bool { return v.committed() == 3 })
				lose()
			}
			wants(t, ctx, sum, 11)
			err := nodetest.Fails(t, ctx, failed, errTorn)
			if when == "after the commit" && !strings.Contains(err.Error(), "run 3") {
				t.Errorf("the repeated call did not get its first outcome: %v", err)
			}
			wants(t, ctx, v.get.Call(ctx, g), 11)
			if n := v.committed(); n != 3 {
				t.Errorf("%s is lost %s: %d replies for 3 calls", map[bool]string{true: "the node", false: "the link"}[node], when, n)
			}
		}
	}
}

// TestOtherCallUnderAnID: what was recorded under a call id stays.
func TestOtherCallUnderAnID(t *testing.T) {
	v := newVaults(t)
	a, b := v.net.add("a"), v.net.add("b")
	g := v.kind.Get("x")
	v.net.put(idOf(g), b)
	task := a.task(7)
	wants(t, task, v.add.Call(task, g, 5), 5)
	again := a.task(7)
	wants(t, again, v.add.Call(again, g, 5), 5)
	other := a.task(7)
	nodetest.Fails(t, other, v.add.Call(other, g, 6), raysys.ErrNondeterministic)
	wants(t, other, v.get.Call(other, g), 5)
}

// TestReplyOfAnotherRun: with a fixed seed a program that is started anew makes calls with the ids of its last run. They are
// other calls.
func TestReplyOfAnotherRun(t *testing.T) {
	v := newVaults(t)
	a, b := v.net.add("a"), v.net.add("b")
	g := v.kind.Get("x")
	v.net.put(idOf(g), b)
	for i, want := range []int{5, 11} {
		run := a.run(uint64(i + 1))
		for range 2 { // the second is the next attempt of the same task
			task := taskOf(run, 7)
			wants(t, task, v.add.Call(task, g, 5+i), want)
		}
		driver := core.HookContext(run)
		wants(t, driver, v.add.Call(driver, g, 100+i), want+100+i)
		wants(t, driver, v.add.Call(driver, g, -100-i), want)
	}
}

// TestRepliesAreBounded: those for a driver go once it has them. Of a task that makes many calls the oldest replies go: its next
// calls run, and those of others, and its next attempt does not repeat a call whose reply has gone, also where another node
// has the grain by then.
func TestRepliesAreBounded(t *testing.T) {
	v := newVaults(t)
	a, b := v.net.add("a"), v.net.add("b")
	g := v.kind.Get("x")
	v.net.put(idOf(g), b)
	ctx := a.context()
	for i := range 100 {
		wants(t, ctx, v.add.Call(ctx, g, 1), i+1)
	}
	nodetest.Eventually(t, "the replies go", func() bool {
		if _, err := v.add.Call(ctx, g, 1).Get(ctx); err != nil {
			t.Fatal(err)
		}
		return v.kept("x") < 10
	})
	task, g := a.task(7), v.kind.Get("y")
	v.net.put(idOf(g), b)
	var refs []raysys.Ref[int]
	for range 4096 {
		refs = append(refs, v.add.Call(task, g, 1))
	}
	for _, r := range refs {
		if _, err := r.Get(task); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 100 {
		wants(t, task, v.add.Call(task, g, 1), 4097+i)
	}
	wants(t, ctx, v.add.Call(ctx, g, 1), 4197)
	other := a.task(8)
	wants(t, other, v.add.Call(other, g, 1), 4198)
	if n := v.kept("y"); n > 4096+3 {
		t.Errorf("%d replies are stored", n)
	}
	v.net.put(idOf(g), a)
	again := a.task(7)
	err := nodetest.Fails(t, again, v.add.Call(again, g, 1), grains.ErrReplyGone)
	if !errors.Is(err, raysys.ErrOutcomeUnknown) {
		t.Error(err)
	}
	for range 150 { // they may have a reply, or not
		if n, err := v.add.Call(again, g, 1).Get(again); err == nil && n > 4198 {
			t.Fatalf("a call ran twice: %d", n)
		}
	}
	for i := 151; i < 4196; i++ {
		wants(t, again, v.add.Call(again, g, 1), i+1)
	}
	other = a.task(8)
	wants(t, other, v.add.Call(other, g, 1), 4198)
	wants(t, ctx, v.get.Call(ctx, g), 4198)
}

// TestKeysOutliveBodies: the oldest replies to calls with keys lose their bodies, and such a call does not run again.
func TestKeysOutliveBodies(t *testing.T) {
	v := newVaults(t)
	fat := grains.Method(v.kind, "fat", func(g *vault, _ context.Context, n int) ([]byte, error) {
		g.balance.Value++
		return make([]byte, n), nil
	})
	a, b := v.net.add("a"), v.net.add("b")
	g := v.kind.Get("x")
	v.net.put(idOf(g), b)
	ctx := a.context()
	call := func(i int) error {
		_, err := fat.With(raysys.Key(fmt.Sprint(i))).Call(ctx, g, 60<<10).Get(ctx)
		return err
	}
	for i := range 40 {
		if err := call(i); err != nil {
			t.Fatal(i, err)
		}
	}
	for _, at := range []*fakeNode{b, a} {
		v.net.put(idOf(g), at)
		if err := call(0); !errors.Is(err, grains.ErrReplyGone) || len(err.Error()) > 300 {
			t.Error(err)
		}
		if err := call(39); err != nil {
			t.Error(err)
		}
		if _, err := fat.With(raysys.Key("0")).Call(ctx, g, 5).Get(ctx); !errors.Is(err, raysys.ErrKeyReused) {
			t.Error(err)
		}
		wants(t, ctx, v.get.Call(ctx, g), 40)
	}
}

// TestTells leave once the turn is stored, and never where it is rolled back.
func TestTells(t *testing.T) {
	tb := raysys.NewTable()
	net := newNet(t, tb)
	heard := make(chan int, 100)
	listeners := grains.DefineIn[listener](tb, "listener")
	note := grains.Action(listeners, "note", func(_ *listener, _ context.Context, n int) error { heard <- n; return nil })
	kind := grains.DefineIn[vault](tb, "vault", grains.Durable())
	tell := grains.Method(kind, "tell", func(g *vault, ctx context.Context, n int) (int, error) {
		g.balance.Value = n
		if err := note.Tell(ctx, listeners.Get("r"), n); err != nil {
			return 0, err
		}
		if n < 0 {
			return 0, errTorn
		}
		return n, nil
	})
	call := grains.Method(kind, "call", func(_ *vault, ctx context.Context, n int) (int, error) {
		_, err := tell.Call(ctx, kind.Get("other"), n).Get(ctx)
		return 0, err
	})
	a, b := net.add("a"), net.add("b")
	ctx := a.context()
	g := kind.Get("x")
	net.put(idOf(g), b)
	let := net.slowly("commit")
	first := tell.Call(ctx, g, 1)
	nodetest.Eventually(t, "it commits", func() bool { return net.pending() == 1 })
	if len(heard) > 0 {
		t.Error("a Tell left before its turn was stored")
	}
	let()
	wants(t, ctx, first, 1)
	nodetest.Fails(t, ctx, tell.Call(ctx, g, -1), errTorn)
	err := nodetest.Fails(t, ctx, call.Call(ctx, g, 7), grains.ErrDurableTurn)
	if strings.Contains(err.Error(), "Idempotent()") {
		t.Errorf("the advice does not help for a durable kind: %v", err)
	}
	wants(t, ctx, tell.Call(ctx, g, 2), 2)
	if got := []int{nodetest.Arrive(t, heard, "a Tell"), nodetest.Arrive(t, heard, "a Tell")}; !slices.Equal(got, []int{1, 2}) {
		t.Error(got)
	}
}

// TestUnreadable: a grain with records of a newer program answers with a typed error, and nothing is overwritten.
func TestUnreadable(t *testing.T) {
	for _, what := range []string{"reply", "state"} {
		v := newVaults(t)
		a, b := v.net.add("a"), v.net.add("b")
		g := v.kind.Get("x")
		v.net.put(idOf(g), b)
		task := a.task(3)
		wants(t, task, v.add.Call(task, g, 5), 5)
		s := v.net.store
		s.mu.Lock()
		for call, data := range s.replies[idOf(g)] {
			if what == "reply" {
				s.replies[idOf(g)][call] = append([]byte{99}, data[1:]...)
			}
		}
		if k := (storeKey{idOf(g), "balance"}); what == "state" {
			r := s.records[k]
			r.Data = append([]byte{99}, r.Data[1:]...)
			s.records[k] = r
		}
		seq := s.seq
		s.mu.Unlock()
		v.net.put(idOf(g), a)
		ctx := a.context()
		nodetest.Fails(t, ctx, v.add.Call(ctx, g, 1), grains.ErrUnreadable)
		if s.seq != seq {
			t.Errorf("a %s that cannot be read: something was written over it", what)
		}
	}
}

// TestDurableDefinitions that cannot be are reported.
func TestDurableDefinitions(t *testing.T) {
	for want, define := range map[string]func(*raysys.Table){
		"StatelessWorker": func(tb *raysys.Table) {
			grains.DefineIn[vault](tb, "v", grains.Durable(), grains.StatelessWorker(1))
		},
		"Reentrant":    func(tb *raysys.Table) { grains.DefineIn[vault](tb, "v", grains.Durable(), grains.Reentrant()) },
		"no grains":    func(tb *raysys.Table) { grains.DefineIn[listener](tb, "v", grains.Durable()) },
		"KeepReplies(": func(tb *raysys.Table) { grains.DefineIn[vault](tb, "v", grains.Durable(), grains.KeepReplies(0)) },
	} {
		tb := raysys.NewTable()
		define(tb)
		if err := tb.Freeze(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// TestDurableWithoutCluster: in one process, too.
func TestDurableWithoutCluster(t *testing.T) {
	v := newVaults(t)
	a := v.net.addAlone("a")
	ctx := a.context()
	g := v.kind.Get("x")
	wants(t, ctx, v.add.Call(ctx, g, 5), 5)
	nodetest.Fails(t, ctx, v.fail.Call(ctx, g, 5), errTorn)
	wants(t, ctx, v.get.Call(ctx, g), 5)
}

// task is the context of a task of the node's, the same one for the same number.
func (n *fakeNode) task(i uint64) context.Context { return taskOf(n.top, i) }

// taskOf is the context of a task of the driver up, the same one for the same number.
func taskOf(up *core.Turn, i uint64) context.Context {
	return core.HookContext(core.NewTurn(core.TurnSpec{Kind: core.TurnTask, Name: "task", ID: up.ID().Child(1 << 40).Child(i), Up: up, Attempt: 1}))
}

// run is the driver of a run of a program whose seed is fixed: its ids are those of every other run.
func (n *fakeNode) run(run uint64) *core.Turn {
	j := &core.Job{
		ID: n.net.job, Run: run, Namespace: "test", Node: n.name, Runtime: n, Table: n.net.table, Top: n.top, Closed: n.ending, Unseen: n.job.Unseen,
	}
	return core.NewRoot(j, context.Background(), n.top, raysys.TaskID(n.net.job))
}

func settled[T any](r raysys.Ref[T]) bool { return raysys.PhaseOf(r) == raysys.PhaseReady }

// on has the grains that are placed from now on live on n.
func (v *vaults) on(n *fakeNode) {
	v.net.mu.Lock()
	defer v.net.mu.Unlock()
	v.net.choose = func(graindir.ID, *fakeNode, []*fakeNode) *fakeNode { return n }
}

// TestDurableFormats: the record of a reply, and the frame that says that it may go, are what testdata says this version writes.
func TestDurableFormats(t *testing.T) {
	v := newVaults(t)
	a, b := v.net.add("a"), v.net.add("b")
	ctx := a.context()
	g := v.kind.Get("x")
	v.net.put(idOf(g), b)
	forget := make(chan []byte, 10)
	v.net.mu.Lock()
	v.net.onWire = func(_ *fakeLink, _ *fakeNode, kind wire.Kind, frame []byte) {
		if kind == wire.KindCallForget {
			forget <- slices.Clone(frame)
		}
	}
	v.net.mu.Unlock()
	r := v.add.Call(ctx, g, 5)
	wants(t, ctx, r, 5)
	v.net.store.mu.Lock()
	stored := v.net.store.replies[idOf(g)][r.ID()]
	v.net.store.mu.Unlock()
	frame := nodetest.Arrive(t, forget, "the frame")
	if want := golden.Hex(t, "v1/reply.hex", stored); !slices.Equal(stored, want) {
		t.Errorf("a reply is stored as %x, want %x", stored, want)
	}
	if want := golden.Hex(t, "v1/forget.hex", frame); !slices.Equal(frame, want) {
		t.Errorf("a reply may go, in a frame: %x, want %x", frame, want)
	}
	if owner, owned := replies.Owner(stored); !owned || owner != a.Self() {
		t.Errorf("the reply to a driver of %v is kept for %v", a.Self(), owner)
	}
}

// TestDurableTooLarge: a turn that leaves a State too large to be stored fails with its size and gives everything back.
func TestDurableTooLarge(t *testing.T) {
	v := newVaults(t)
	a, b := v.net.add("a"), v.net.add("b")
	ctx := a.context()
	g := v.kind.Get("x")
	v.net.put(idOf(g), b)
	ends(t, ctx, v.both.Call(ctx, g, "rent"))
	err := nodetest.Fails(t, ctx, v.both.Call(ctx, g, strings.Repeat("x", grains.MaxState)), raysys.ErrTooLarge)
	if !strings.Contains(err.Error(), "notes") {
		t.Errorf("the error does not name the State: %v", err)
	}
	wants(t, ctx, v.get.Call(ctx, g), 1)
	ends(t, ctx, v.both.Call(ctx, g, "food"))
	wants(t, ctx, v.get.Call(ctx, g), 2)
}
