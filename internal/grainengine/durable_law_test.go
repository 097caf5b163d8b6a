package grainengine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/internal/nodetest"
)

// diary is a durable grain that remembers which calls have counted. Some of them leave a State that is an object.
type diary struct {
	calls grains.State[[]int]
	photo grains.State[[]byte]
}

// photoOf is the size of the State that a call leaves; false where it leaves it as it is.
func photoOf(n int) (size int, changes bool) {
	switch n % 10 {
	case 0:
		return 150_000 + n, true
	case 5:
		return n, true
	}
	return 0, false
}

// TestDurableCallsCountOnce: with nodes that are killed and live on as zombies, links that break, grains that leave, and a
// store whose answers get lost, a call that was answered counted once, one that failed at most once, and one that surely did
// not run did not count. Every reply is that of the turn that counted: the number of calls before it.
func TestDurableCallsCountOnce(t *testing.T) {
	for _, seed := range long.Seeds() {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { durableStorm(t, seed, 1500, 0) })
		// A dozen of these replies fill the room, so activations ask drivers' nodes all the time which they may drop.
		t.Run(fmt.Sprint("large replies, seed ", seed), func(t *testing.T) { durableStorm(t, seed, 1500, 40_000) })
	}
}

// padded is the reply to a call: the number of calls before it, and bytes that fill the room for replies.
type padded struct {
	At  int
	Pad []byte
}

func durableStorm(t *testing.T, seed uint64, ops, pad int) {
	const keys = 6
	tb := raysys.NewTable()
	net := newNet(t, tb)
	kind := grains.DefineIn[diary](tb, "diary", grains.Durable())
	note := grains.Method(kind, "note", func(j *diary, _ context.Context, n int) (padded, error) {
		j.calls.Value = append(j.calls.Value, n)
		if size, changes := photoOf(n); changes {
			j.photo.Value = make([]byte, size)
		}
		if n%7 == 0 {
			return padded{}, fmt.Errorf("%w: %d", errTorn, n)
		}
		return padded{len(j.calls.Value) - 1, make([]byte, pad)}, nil
	}).With(raysys.Deadline(5 * time.Second))
	list := grains.Method0(kind, "list", func(j *diary, _ context.Context) ([]int, error) { return j.calls.Value, nil }).ReadOnly()
	photo := grains.Method0(kind, "photo", func(j *diary, _ context.Context) (int, error) { return len(j.photo.Value), nil }).ReadOnly()
	quit := grains.Action0(kind, "quit", func(_ *diary, ctx context.Context) error { return grains.Deactivate(ctx) }).ReadOnly()

	type outcome struct {
		at  int
		err error
	}
	answers := map[int]outcome{}
	var mu sync.Mutex // guards answers
	draw := drawn(seed)
	last := storm(t, net, draw, ops, 40, 20, func(n int, from *fakeNode) {
		ctx, g := from.context(), kind.Get(fmt.Sprint(n%keys))
		if draw(20) == 0 {
			_, _ = quit.Call(ctx, g).Get(ctx)
		}
		at, err := note.Call(ctx, g, n).Get(ctx)
		mu.Lock()
		answers[n] = outcome{at.At, err}
		mu.Unlock()
	})
	ctx := last.context()
	count, good := map[int]int{}, 0
	for k := range keys {
		calls, err := list.Call(ctx, kind.Get(fmt.Sprint(k))).Get(ctx)
		if err != nil {
			t.Fatal(err)
		}
		want := 0
		for i, n := range calls {
			if size, changes := photoOf(n); changes {
				want = size
			}
			count[n]++
			if a := answers[n]; a.err == nil && a.at != i {
				t.Errorf("call %d is number %d, and its reply says %d", n, i, a.at)
			}
		}
		if size, err := photo.Call(ctx, kind.Get(fmt.Sprint(k))).Get(ctx); err != nil || size != want {
			t.Errorf("the photo of diary %d has %d bytes, %v; the last call that counted left %d", k, size, err, want)
		}
	}
	for n := 1; n <= ops; n++ {
		a := answers[n]
		unknown := errors.Is(a.err, raysys.ErrOutcomeUnknown) || errors.Is(a.err, raysys.ErrDeadline) || errors.Is(a.err, raysys.ErrCancelled)
		switch {
		case a.err == nil && count[n] != 1:
			t.Errorf("call %d was answered, and counted %d times", n, count[n])
		case count[n] > 1:
			t.Errorf("call %d counted %d times", n, count[n])
		case a.err != nil && !unknown && count[n] != 0:
			t.Errorf("call %d failed, and counted: %v", n, a.err)
		case a.err == nil:
			good++
		}
	}
	t.Logf("%d of %d calls answered", good, ops)
	if good < ops/2 {
		t.Errorf("only %d of %d calls were answered", good, ops)
	}
}

// drawn returns a source of numbers below n, for any goroutine.
func drawn(seed uint64) func(n int) int {
	var mu sync.Mutex
	rnd := rand.New(rand.NewPCG(seed, 1))
	return func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return rnd.IntN(n)
	}
}

// storm has six clients make ops calls, which are numbered, each from some node. Meanwhile, rounds times, nodes are killed
// and their links cut, and one commit in rare has each fault of the store. It returns a node of the time after that.
func storm(
	t *testing.T, net *fakeNet, draw func(int) int, ops, rare, rounds int, call func(n int, from *fakeNode),
) *fakeNode {
	net.store.onSave = func(graindir.ID, string) fault {
		if f := draw(rare); f < int(saveDelayed)+1 {
			return fault(f)
		}
		return saveWell
	}
	var mu sync.Mutex // guards nodes
	nodes := []*fakeNode{net.add("n0"), net.add("n1"), net.add("n2")}
	var done atomic.Int64
	var clients sync.WaitGroup
	for range 6 {
		clients.Go(func() {
			for n := int(done.Add(1)); n <= ops; n = int(done.Add(1)) {
				mu.Lock()
				from := nodes[draw(len(nodes))]
				mu.Unlock()
				call(n, from)
			}
		})
	}
	for killed := 0; int(done.Load()) < ops; {
		before := done.Load()
		nodetest.Eventually(t, "calls end", func() bool {
			net.store.arrive()
			return done.Load() >= min(before+int64(ops/rounds), int64(ops))
		})
		i := draw(len(nodes))
		old := nodes[i] // only this goroutine writes nodes
		if draw(2) == 0 {
			old.cut(errors.New("reset by test"))
			continue
		}
		killed++
		next := net.add(fmt.Sprint("m", killed))
		mu.Lock()
		nodes[i] = next
		mu.Unlock()
		old.kill()
	}
	clients.Wait()
	net.store.heal()
	net.store.arrive()
	return net.add("last")
}
