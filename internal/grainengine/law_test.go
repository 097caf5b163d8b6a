package grainengine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/grainengine"
)

// witness is a grain that tells a ledger what happens to it.
type witness struct {
	book  *ledger
	token graindir.Token
}

// ledger knows every activation and every turn of a test.
type ledger struct {
	mu    sync.Mutex
	live  map[graindir.Token]int
	ran   map[int]int     // by call: how often
	order map[where][]int // the calls of one caller that one activation ran, within one calm
	bad   []string
}

type where struct {
	token  graindir.Token
	caller int
	calm   int
}

// errand is one call's argument.
type errand struct {
	Call   int
	Caller int
	Calm   int // which calm it was made in; 0 for none, when a route may be out of date and order is not promised
	Pad    []byte
}

var theLedger sync.Map // namespace-free: the node's net -> *ledger; a grain finds its own by its runtime

func ledgerOf(ctx context.Context) *ledger {
	t, _, err := core.TurnOf(ctx)
	if err != nil {
		return nil
	}
	v, _ := theLedger.Load(t.Runtime().(*fakeNode).net)
	return v.(*ledger)
}

func (w *witness) OnActivate(ctx context.Context) error {
	w.book, w.token = ledgerOf(ctx), grainengine.TokenOf(ctx)
	w.book.mu.Lock()
	defer w.book.mu.Unlock()
	if w.book.live[w.token]++; w.book.live[w.token] > 1 {
		w.book.bad = append(w.book.bad, fmt.Sprint(w.book.live[w.token], " activations live under token ", w.token))
	}
	if w.token.IsZero() {
		w.book.bad = append(w.book.bad, "an activation without a token")
	}
	return nil
}

func (w *witness) OnDeactivate(context.Context) error {
	w.book.mu.Lock()
	defer w.book.mu.Unlock()
	w.book.live[w.token]--
	return nil
}

func (w *witness) Take(_ context.Context, s errand) (int, error) {
	w.book.mu.Lock()
	defer w.book.mu.Unlock()
	w.book.ran[s.Call]++
	if s.Calm == 0 {
		return s.Call, nil
	}
	at := where{w.token, s.Caller, s.Calm}
	w.book.order[at] = append(w.book.order[at], s.Call)
	return s.Call, nil
}

// TestLawsOfCalls: under random calls, moves, resets, deaths, drains and passivations every call is answered once; what
// succeeded ran once, what failed ran at most once, idempotent calls aside; a caller's calls to an activation keep
// their order while nothing moves; and a token has at most one live activation.
func TestLawsOfCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the calls have deadlines
		rapid.Check(bubble{t}, func(rt *rapid.T) { lawsOfCalls(t, rt) })
	})
}

func lawsOfCalls(t *testing.T, rt *rapid.T) {
	tb := raysys.NewTable()
	k := grains.DefineIn[witness](tb, "witness")
	take := grains.Method(k, "take", (*witness).Take)
	again := grains.Method(k, "again", (*witness).Take).Idempotent()
	quit := grains.Action0(k, "quit", func(_ *witness, ctx context.Context) error { return grains.Deactivate(ctx) })
	net := newNet(t, tb)
	book := &ledger{live: map[graindir.Token]int{}, ran: map[int]int{}, order: map[where][]int{}}
	theLedger.Store(net, book)
	defer theLedger.Delete(net)
	defer net.close()
	nodes := []*fakeNode{net.add("n0"), net.add("n1"), net.add("n2")}
	ctxs := []context.Context{nodes[0].context(), nodes[1].context(), nodes[2].context()}
	type made struct {
		ref    raysys.Ref[int]
		ctx    context.Context
		call   int
		repeat bool
	}
	var all []made
	calm, calms := 1, 1
	caught := map[int]bool{} // calls that a disturbance met on their way: they may be sent again, and have no order
	disturb := func() {
		calm = 0
		for _, m := range all {
			if raysys.PhaseOf(m.ref) == raysys.PhasePending {
				caught[m.call] = true
			}
		}
	}
	key := func() grains.Grain[witness] { return k.Get(fmt.Sprint(rapid.IntRange(0, 3).Draw(rt, "key"))) }
	for range rapid.IntRange(1, 60).Draw(rt, "steps") {
		i := rapid.IntRange(0, 2).Draw(rt, "node")
		switch what := rapid.IntRange(0, 19).Draw(rt, "what"); {
		case what < 12:
			g, n := key(), rapid.IntRange(1, 8).Draw(rt, "calls")
			m, repeat := take, false
			if rapid.IntRange(0, 4).Draw(rt, "idempotent") == 0 {
				m, repeat = again, true
			}
			for range n {
				s := errand{Call: len(all), Caller: i, Calm: calm}
				if rapid.IntRange(0, 9).Draw(rt, "large") == 0 {
					s.Pad = make([]byte, 70_000)
				}
				all = append(all, made{m.Call(ctxs[i], g, s), ctxs[i], s.Call, repeat})
			}
		case what < 14:
			disturb()
			_ = quit.Tell(ctxs[i], key())
		case what < 15: // a rebalancing that the old node does not hear of
			disturb()
			net.put(idOf(key()), nodes[i])
		case what < 17:
			disturb()
			nodes[i].cut(errors.New("cable"))
		case what < 18:
			disturb()
			nodes[i].kill()
			nodes[i] = net.add(string(nodes[i].name))
			ctxs[i] = nodes[i].context()
		case what < 19:
			disturb()
			end, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			if err := nodes[i].drain(end); err != nil {
				rt.Error(err)
			}
			cancel()
			nodes[i].close()
			nodes[i] = net.add(string(nodes[i].name))
			ctxs[i] = nodes[i].context()
		default:
			for _, m := range all {
				_, _ = m.ref.Get(m.ctx)
			}
			// Everybody finds out where everything is.
			calms++
			for _, ctx := range ctxs {
				for i := range 4 {
					_, _ = take.Call(ctx, k.Get(fmt.Sprint(i)), errand{Call: -1}).Get(ctx)
				}
			}
			calm = calms
		}
	}
	for _, m := range all {
		v, err := m.ref.Get(m.ctx)
		book.mu.Lock()
		ran := book.ran[m.call]
		book.mu.Unlock()
		switch {
		case err == nil && v != m.call:
			rt.Errorf("call %d got the answer of %d", m.call, v)
		case err == nil && ran != 1 && !m.repeat, err == nil && ran == 0:
			rt.Errorf("call %d succeeded and ran %d times", m.call, ran)
		case err != nil && ran > 1 && !m.repeat:
			rt.Errorf("call %d ran %d times: %v", m.call, ran, err)
		case err != nil && m.repeat && errors.Is(err, raysys.ErrOutcomeUnknown):
			rt.Errorf("idempotent call %d: %v", m.call, err)
		case err != nil && !errors.Is(err, raysys.ErrOutcomeUnknown) && !errors.Is(err, raysys.ErrSuspended) && !errors.Is(err, raysys.ErrClosed):
			rt.Errorf("call %d: %v", m.call, err)
		}
	}
	book.mu.Lock()
	defer book.mu.Unlock()
	for at, calls := range book.order {
		last := -1
		for _, call := range calls {
			if !caught[call] && call < last {
				rt.Errorf("caller %d, %v: call %d after %d", at.caller, at.token, call, last)
			}
			if !caught[call] {
				last = call
			}
		}
	}
	for _, b := range book.bad {
		rt.Error(b)
	}
}
