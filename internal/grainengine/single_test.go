package grainengine_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/nodetest"
)

// alone counts the activations of each key between OnActivate and OnDeactivate, and the turns that run.
type alone struct {
	here *place
	seen map[int]int // of each caller: its last number
	n    int         // plain: the race detector sees turns that overlap
}

type place struct {
	active, turns   atomic.Int32
	most, mostTurns atomic.Int32
	swapped         atomic.Int32
	activations     atomic.Int32
}

var places sync.Map // key -> *place; keys are unique in the process

func (a *alone) OnActivate(ctx context.Context) error {
	id, _ := grains.Self(ctx)
	p, _ := places.LoadOrStore(id.Key, &place{})
	a.here, a.seen = p.(*place), map[int]int{}
	a.here.activations.Add(1)
	if n := a.here.active.Add(1); n > 1 {
		a.here.most.Store(n)
	}
	return nil
}

func (a *alone) OnDeactivate(context.Context) error {
	runtime.Gosched()
	a.here.active.Add(-1)
	return nil
}

// stamp is the number-th call of a caller to one grain. Leave makes it the activation's last.
type stamp struct {
	Caller, Number int
	Leave, Yield   bool
}

func (a *alone) Hit(ctx context.Context, s stamp) (int, error) {
	if n := a.here.turns.Add(1); n > 1 {
		a.here.mostTurns.Store(n)
	}
	a.n++
	if last, ok := a.seen[s.Caller]; ok && s.Number != last+1 {
		a.here.swapped.Add(1)
	}
	a.seen[s.Caller] = s.Number
	if s.Yield {
		runtime.Gosched()
	}
	if s.Leave {
		_ = grains.Deactivate(ctx)
	}
	a.here.turns.Add(-1)
	return s.Number, nil
}

// TestOneActivationAtATime: calls race the activation's end, by Deactivate, by idleness and by a panic; there are
// never two activations or two turns at a time, no call is lost, and each caller's calls start in order.
func TestOneActivationAtATime(t *testing.T) {
	tb := raysys.NewTable()
	k := grains.DefineIn[alone](tb, "alone", grains.IdleAfter(4*time.Microsecond))
	hit := grains.Method(k, "hit", (*alone).Hit)
	ctx := nodetest.Driver(t, tb)
	rapid.Check(t, func(rt *rapid.T) {
		callers := rapid.IntRange(1, 6).Draw(rt, "callers")
		calls := rapid.IntRange(1, 120).Draw(rt, "calls")
		every := rapid.IntRange(1, 20).Draw(rt, "leave every")
		pace := rapid.IntRange(0, 3).Draw(rt, "pace")
		key := fmt.Sprint(serial.Add(1))
		g := k.Get(key)
		var wg sync.WaitGroup
		for c := range callers {
			wg.Add(1)
			go func() {
				defer wg.Done()
				ctx := raysys.Branch(ctx, c)
				var refs []raysys.Ref[int]
				for i := range calls {
					refs = append(refs, hit.Call(ctx, g, stamp{c, i, i%every == every-1, i%3 == 0}))
					for range pace {
						runtime.Gosched()
					}
				}
				for i, r := range refs {
					if v, err := r.Get(ctx); v != i || err != nil {
						rt.Errorf("call %d of caller %d: %d, %v", i, c, v, err)
					}
				}
			}()
		}
		wg.Wait()
		p, ok := places.Load(key)
		if !ok {
			rt.Fatal("no activation")
		}
		check(rt, p.(*place))
	})
}

func check(t interface{ Errorf(string, ...any) }, p *place) {
	if n := p.most.Load(); n > 1 {
		t.Errorf("%d activations at a time", n)
	}
	if n := p.mostTurns.Load(); n > 1 {
		t.Errorf("%d turns at a time", n)
	}
	if n := p.swapped.Load(); n > 0 {
		t.Errorf("%d calls out of order", n)
	}
}

// TestIdleClockRacesCalls hammers a few grains around the moment their idle period ends: so often, and on until one was passivated.
func TestIdleClockRacesCalls(t *testing.T) {
	tb := raysys.NewTable()
	k := grains.DefineIn[alone](tb, "alone", grains.IdleAfter(200*time.Microsecond))
	hit := grains.Method(k, "hit", (*alone).Hit)
	ctx := nodetest.Driver(t, tb)
	const keys, callers, rounds = 4, 3, 500
	begin, base := time.Now(), serial.Add(keys)
	activations := func() (all int32) {
		for j := range keys {
			if p, ok := places.Load(fmt.Sprint(base - int64(j))); ok {
				all += p.(*place).activations.Load()
			}
		}
		return all
	}
	var wg sync.WaitGroup
	for c := range callers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			ctx := raysys.Branch(ctx, c)
			for i := 0; i < rounds || activations() <= keys && time.Since(begin) < time.Minute; i++ {
				for j := range keys {
					if v, err := hit.Call(ctx, k.Get(fmt.Sprint(base-int64(j))), stamp{Caller: c, Number: i}).Get(ctx); v != i || err != nil {
						t.Errorf("call %d: %d, %v", i, v, err)
						return
					}
				}
				for pause := time.Now(); time.Since(pause) < time.Duration(i%5)*100*time.Microsecond; {
					runtime.Gosched()
				}
			}
		}()
	}
	wg.Wait()
	for j := range keys {
		p, _ := places.Load(fmt.Sprint(base - int64(j)))
		check(t, p.(*place))
	}
	if activations() <= keys {
		t.Errorf("nothing was passivated within a minute: the clock raced no call")
	}
}
