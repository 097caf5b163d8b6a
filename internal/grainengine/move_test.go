package grainengine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/nodetest"
)

// nomad is a grain that moves. It keeps the numbers that each caller has sent, in what all nodes of the test share.
type nomad struct {
	active *atomic.Int32
	later  *grains.Later[int]
	stop   func()
}

// trips is what nomads note.
type trips struct {
	mu     sync.Mutex
	got    map[string][]int // key and caller -> numbers in their order
	active map[string]*atomic.Int32
	twice  atomic.Bool
	nodes  map[string]raysys.NodeID // where each ran last
}

// moving starts a kind of nomads with the methods that the tests call.
func moving(tb *raysys.Table, opts ...grains.Option) (k grains.Kind[nomad], note grains.Func[nomad, [2]int, raysys.NodeID], tr *trips) {
	tr = &trips{got: map[string][]int{}, active: map[string]*atomic.Int32{}, nodes: map[string]raysys.NodeID{}}
	k = grains.DefineIn[nomad](tb, "nomad", append(opts, grains.Movable())...)
	note = grains.Method(k, "note", func(g *nomad, ctx context.Context, by [2]int) (raysys.NodeID, error) {
		id, _ := grains.Self(ctx)
		turn, _, err := core.TurnOf(ctx)
		tr.mu.Lock()
		defer tr.mu.Unlock()
		if g.active == nil {
			if tr.active[id.Key] == nil {
				tr.active[id.Key] = &atomic.Int32{}
			}
			if g.active = tr.active[id.Key]; g.active.Add(1) > 1 {
				tr.twice.Store(true)
			}
		}
		at := fmt.Sprint(id.Key, " ", by[0])
		tr.got[at] = append(tr.got[at], by[1])
		tr.nodes[id.Key] = turn.Job().Node
		return turn.Job().Node, err
	})
	return k, note, tr
}

func (g *nomad) OnDeactivate(context.Context) error {
	if g.active != nil {
		g.active.Add(-1)
	}
	return nil
}

// candidates are what may move of a node's grains.
func candidates(n *fakeNode) []grainengine.Candidate {
	_, list := grainengine.CountTurns(n.engine, true)
	return list
}

// TestMovesLoseNothing: under load from every node, whose callers do not wait for one call before they make the next, grains move all the
// time. Every call is answered, once and without an error; each grain sees the calls of each caller in their order, and is active once.
// A grain moves again when no call is on its way any more that was made before its last move: in a cluster that takes a minute.
func TestMovesLoseNothing(t *testing.T) {
	tb := raysys.NewTable()
	net := newNet(t, tb)
	k, note, tr := moving(tb, grains.Keep())
	nodes := []*fakeNode{net.add("a"), net.add("b"), net.add("c")}
	const keys, callers, rounds, burst = 10, 6, 60, 25
	var load sync.WaitGroup
	var done [callers]atomic.Int64 // rounds
	for w := range callers {
		load.Go(func() {
			ctx := nodes[w%3].context()
			for round := range rounds {
				done[w].Store(int64(round))
				var refs []raysys.Ref[raysys.NodeID]
				for j := range burst {
					for key := range keys {
						refs = append(refs, note.Call(ctx, k.Get(fmt.Sprint(key)), [2]int{w, round*burst + j}))
					}
				}
				for _, r := range refs {
					if _, err := r.Get(ctx); err != nil {
						t.Errorf("a call from %s: %v", nodes[w%3].name, err)
						return
					}
				}
			}
		})
	}
	stop, moves := make(chan struct{}), atomic.Int64{}
	var mover sync.WaitGroup
	mover.Go(func() {
		last := map[string]int64{} // the first round that began after a grain's last move
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
			least, most := done[0].Load(), int64(0)
			for w := range done {
				least, most = min(least, done[w].Load()), max(most, done[w].Load())
			}
			from, to := nodes[i%3], nodes[(i+1+i/3%2)%3]
			for _, c := range candidates(from) {
				if key := c.ID().Key; least > last[key] {
					last[key] = most + 1
					grainengine.Move(&c, core.NodeKey{Node: to.name, Incarnation: to.incarnation}, func(graindir.Place) { moves.Add(1) })
				}
			}
		}
	})
	load.Wait()
	close(stop)
	mover.Wait()
	if moves.Load() < 20 {
		t.Errorf("%d grains have moved, and 20 at least should", moves.Load())
	}
	if tr.twice.Load() {
		t.Error("a grain was active twice")
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for at, got := range tr.got {
		if len(got) != rounds*burst || !slices.IsSorted(got) {
			t.Errorf("caller %s: %d calls, want %d in their order", at, len(got), rounds*burst)
		}
	}
	if len(tr.got) != keys*callers {
		t.Errorf("%d pairs of grains and callers", len(tr.got))
	}
}

// TestMoveIsHeard: a grain that has moved is called at its new node; a caller that does not know hears the place at once, and nobody asks the
// registry.
func TestMoveIsHeard(t *testing.T) {
	tb := raysys.NewTable()
	net := newNet(t, tb)
	k, note, _ := moving(tb, grains.Keep())
	a, b, c := net.add("a"), net.add("b"), net.add("c")
	net.choose = func(graindir.ID, *fakeNode, []*fakeNode) *fakeNode { return b }
	ctx := a.context()
	g := k.Get("x")
	nodetest.Want(t, ctx, note.Call(ctx, g, [2]int{}), b.name)
	locates, confirms := net.count("locate"), net.count("confirm")
	moved := make(chan graindir.Place, 1)
	list := candidates(b)
	if len(list) != 1 || list[0].ID() != idOf(g) {
		t.Fatalf("b may give %v", list)
	}
	grainengine.Move(&list[0], core.NodeKey{Node: c.name, Incarnation: c.incarnation}, func(p graindir.Place) { moved <- p })
	if p := nodetest.Arrive(t, moved, "the move"); p.Node != c.name || p != net.placeOf(idOf(g)) {
		t.Errorf("it moved to %v, and is placed at %v", p, net.placeOf(idOf(g)))
	}
	nodetest.Want(t, ctx, note.Call(ctx, g, [2]int{}), c.name)
	nodetest.Want(t, b.context(), note.Call(b.context(), g, [2]int{}), c.name)
	if n := net.count("locate") - locates; n != 0 || net.count("confirm") != confirms+1 { // c confirms the token once
		t.Errorf("after a move the registry is asked for the place %d times, and to confirm one %d times", n, net.count("confirm")-confirms)
	}
}

// quitter is a grain that stands, and whose end takes a while.
type quitter struct{ leaving, goes chan struct{} }

func (g *quitter) OnDeactivate(context.Context) error {
	if g.leaving != nil {
		g.leaving <- struct{}{}
		<-g.goes
	}
	return nil
}

// TestMoveIsOverruled: a grain that is unloaded, or ends itself, while it is about to move, ends: it is placed nowhere.
func TestMoveIsOverruled(t *testing.T) {
	for name, opt := range map[string]grains.Option{"stands": grains.Keep(), "always on": grains.AlwaysOn()} {
		for _, itself := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " itself ", itself), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					tb := raysys.NewTable()
					net := newNet(t, tb)
					a, b := net.add("a"), net.add("b")
					net.choose = func(graindir.ID, *fakeNode, []*fakeNode) *fakeNode { return a }
					leaving, goes := make(chan struct{}, 1), make(chan struct{})
					k := grains.DefineIn[quitter](tb, "quitter", opt, grains.Movable())
					move := func() {
						list := candidates(a)
						if len(list) != 1 {
							t.Errorf("a may give %v", list)
							return
						}
						to := core.NodeKey{Node: b.name, Incarnation: b.incarnation}
						grainengine.Move(&list[0], to, func(p graindir.Place) { t.Errorf("it has moved to %v", p) })
					}
					begin := grains.Action(k, "begin", func(g *quitter, ctx context.Context, quits bool) error {
						if g.leaving, g.goes = leaving, goes; !quits {
							return nil
						}
						move()
						return grains.Deactivate(ctx)
					})
					g, ctx := k.Get("x"), a.context()
					nodetest.Want(t, ctx, raysys.Ref[struct{}](begin.Call(ctx, g, itself)), struct{}{})
					if !itself {
						move()
					}
					nodetest.Arrive(t, leaving, "the end of the activation")
					over := make(chan error, 1)
					go func() {
						_, err := grainengine.UnloadHere(ctx, a.engine, idOf(g))
						over <- err
					}()
					synctest.Wait() // it waits for the end
					close(goes)
					if err := nodetest.Arrive(t, over, "the unload"); err != nil || net.placeOf(idOf(g)) != (graindir.Place{}) {
						t.Errorf("it is placed at %v, %v", net.placeOf(idOf(g)), err)
					}
				})
			})
		}
	}
}

// TestStays: what a grain would lose, or what was said of its place, keeps it where it is; and so does its age.
func TestStays(t *testing.T) {
	for name, c := range map[string]struct {
		opts  []grains.Option
		call  []raysys.Option
		begin func(*nomad, context.Context)
		end   func(*nomad)
		age   time.Duration
		stays bool
	}{
		"free":      {age: 61 * time.Second},
		"young":     {age: 59 * time.Second, stays: true},
		"standing":  {opts: []grains.Option{grains.Keep()}},
		"label":     {call: []raysys.Option{raysys.Label("a", "b")}, age: time.Hour, stays: true},
		"placement": {call: []raysys.Option{raysys.Placement(raysys.Spread)}, age: time.Hour, stays: true},
		"timer": {age: time.Hour, stays: true, begin: func(g *nomad, ctx context.Context) {
			g.stop, _ = grains.Every(ctx, time.Minute, func(context.Context) error { return nil })
		}, end: func(g *nomad) { g.stop() }},
		"later": {age: time.Hour, stays: true, begin: func(*nomad, context.Context) {}, end: func(g *nomad) { g.later.Settle(1) }},
	} {
		for _, far := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " far ", far), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					tb := raysys.NewTable()
					net := newNet(t, tb)
					k, note, _ := moving(tb, append(c.opts, grains.IdleAfter(24*time.Hour))...)
					begin := grains.Action0(k, "begin", func(g *nomad, ctx context.Context) error { c.begin(g, ctx); return nil })
					end := grains.Action0(k, "end", func(g *nomad, _ context.Context) error { c.end(g); return nil })
					keep := grains.LaterMethod(k, "keep", func(g *nomad, _ context.Context, _ int, l *grains.Later[int]) error {
						g.later = l
						return nil
					})
					a, b := net.add("a"), net.add("b")
					net.choose = func(graindir.ID, *fakeNode, []*fakeNode) *fakeNode { return a }
					ctx := a.context()
					if far {
						ctx = b.context()
					}
					g := k.Get("x")
					nodetest.Want(t, ctx, note.With(c.call...).Call(ctx, g, [2]int{}), "a")
					var kept raysys.Ref[int]
					if c.begin != nil {
						if name == "later" {
							kept = keep.With(raysys.NoDeadline()).Call(ctx, g, 1)
						}
						nodetest.Want(t, ctx, raysys.Ref[struct{}](begin.Call(ctx, g)), struct{}{})
					}
					candidates(a)
					pass(c.age)
					list := candidates(a)
					if len(list) > 0 == c.stays {
						t.Fatalf("it may move: %v", list)
					}
					if c.end == nil {
						return
					}
					nodetest.Want(t, ctx, raysys.Ref[struct{}](end.Call(ctx, g)), struct{}{})
					if name == "later" {
						nodetest.Want(t, ctx, kept, 1)
					}
					synctest.Wait()
					if list = candidates(a); len(list) != 1 {
						t.Fatalf("now it may not move")
					}
					// What began since it was chosen keeps it as well.
					if name == "later" {
						keep.With(raysys.NoDeadline()).Call(ctx, g, 1)
					}
					nodetest.Want(t, ctx, raysys.Ref[struct{}](begin.Call(ctx, g)), struct{}{})
					grainengine.Move(&list[0], core.NodeKey{Node: b.name, Incarnation: b.incarnation}, func(graindir.Place) { t.Error("it has moved") })
					nodetest.Want(t, ctx, note.Call(ctx, g, [2]int{}), "a")
					nodetest.Want(t, ctx, raysys.Ref[struct{}](end.Call(ctx, g)), struct{}{})
				})
			})
		}
	}
}

// TestMovableDefinitions: what cannot move is refused where it is defined.
func TestMovableDefinitions(t *testing.T) {
	for name, c := range map[string]struct {
		opts []grains.Option
		want string
	}{
		"stateless": {[]grains.Option{grains.StatelessWorker(2)}, "Movable and StatelessWorker"},
		"holds":     {[]grains.Option{grains.Holds(raysys.CPU(1))}, "Movable and Holds"},
		"placement": {[]grains.Option{grains.Placement(raysys.ByHash)}, `Movable and Placement("hash")`},
		"balanced":  {[]grains.Option{grains.Placement(raysys.Balanced)}, ""},
	} {
		tb := raysys.NewTable()
		grains.DefineIn[nomad](tb, "nomad", append(c.opts, grains.Movable())...)
		err := tb.Freeze()
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, raysys.ErrBadDefinition) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCountTurns: turns are counted once, of all kinds but stateless workers, and take at least 1 us and at most 1 ms in the mean.
func TestCountTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := raysys.NewTable()
		net := newNet(t, tb)
		k, note, _ := moving(tb)
		slow := grains.DefineIn[cell](tb, "slow")
		nap := grains.Action0(slow, "nap", func(*cell, context.Context) error { <-time.After(time.Second); return nil })
		pool := grains.DefineIn[cell](tb, "pool", grains.StatelessWorker(1))
		work := grains.Action0(pool, "work", func(*cell, context.Context) error { return nil })
		a := net.add("a")
		ctx := a.context()
		for i := range 30 {
			nodetest.Want(t, ctx, note.Call(ctx, k.Get(fmt.Sprint(i%3)), [2]int{}), "a")
			nodetest.Want(t, ctx, raysys.Ref[struct{}](work.Call(ctx, pool.Get("x"))), struct{}{})
		}
		for range 5 {
			nodetest.Want(t, ctx, raysys.Ref[struct{}](nap.Call(ctx, slow.Get("x"))), struct{}{})
		}
		got, _ := grainengine.CountTurns(a.engine, false)
		if want := (grainengine.Turns{Count: 35, Time: 30*time.Microsecond + 5*time.Millisecond, Active: 4}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		got, list := grainengine.CountTurns(a.engine, true)
		if want := (grainengine.Turns{Active: 4}); got != want || len(list) != 0 {
			t.Errorf("and then %+v and %v, want %+v", got, list, want)
		}
	})
}
