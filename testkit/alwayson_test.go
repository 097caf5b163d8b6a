package testkit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// beat is a grain that is always on: it ticks each second, and stores every fifth tick.
type beat struct {
	N     grains.State[int]
	ticks int
}

// pulses are what the beats of a test have done.
type pulses struct {
	mu     sync.Mutex
	last   map[string]time.Time
	begun  map[string]int
	stored map[string]int
	fails  map[string]int // so many activations are to fail
	bad    []string
}

var (
	pulsesNow *pulses
	beatKinds = func(opts ...grains.Option) (*raysys.Table, grains.Kind[beat], grains.Act0[beat], grains.Act0[beat]) {
		table := raysys.NewTable()
		kind := grains.DefineIn[beat](table, "beat", opts...)
		return table, kind, grains.Action0(kind, "wake", func(*beat, context.Context) error { return nil }),
			grains.Action0(kind, "stop", func(_ *beat, ctx context.Context) error { return grains.Deactivate(ctx) })
	}
)

func newPulses() *pulses {
	return &pulses{last: map[string]time.Time{}, begun: map[string]int{}, stored: map[string]int{}, fails: map[string]int{}}
}

func (b *beat) OnActivate(ctx context.Context) error {
	p := pulsesNow
	id, _ := grains.Self(ctx)
	p.mu.Lock()
	p.begun[id.Key]++
	fails := p.begun[id.Key] <= p.fails[id.Key]
	p.mu.Unlock()
	if fails {
		return errors.New("not yet")
	}
	_, err := grains.Every(ctx, time.Second, func(ctx context.Context) error {
		p.mu.Lock()
		p.last[id.Key] = time.Now()
		p.mu.Unlock()
		if b.ticks++; b.ticks%5 != 0 {
			return nil
		}
		b.N.Value++
		if err := b.N.Write(ctx); err != nil {
			return err
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if b.N.Value <= p.stored[id.Key] {
			p.bad = append(p.bad, fmt.Sprintf("%s stored %d after %d", id.Key, b.N.Value, p.stored[id.Key]))
		}
		p.stored[id.Key] = b.N.Value
		return nil
	})
	return err
}

// silent is how many of all grains have not ticked for d.
func (p *pulses) silent(d time.Duration, all int) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n = all - len(p.last)
	for _, at := range p.last {
		if time.Since(at) > d {
			n++
		}
	}
	return n
}

func (p *pulses) activations(key string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.begun[key]
}

// TestAlwaysOn: whichever nodes die, lead shards or drain, each grain ticks again soon, and no two of one store what they did.
func TestAlwaysOn(t *testing.T) {
	table, kind, wake, _ := beatKinds(grains.AlwaysOn())
	testkit.Virtual(t, func(k *testkit.Kit) {
		const many, ttl = 1000, 10 * time.Second
		p := newPulses()
		pulsesNow = p
		c, ctx := k.Cluster(), k.Context()
		c.Ready()
		var refs []grains.Done
		for i := range many {
			refs = append(refs, wake.Call(ctx, kind.Get(fmt.Sprint(i))))
		}
		if _, err := raysys.GetAll(ctx, refs).Values(); err != nil {
			t.Fatal(err)
		}
		k.Advance(3 * time.Second)
		for i := range uint64(3) {
			plan := testkit.DrawPlan(k.Seed()+i, 4, ttl, 20*time.Second, testkit.FaultKill, testkit.FaultDrain)
			c.Play(plan)
			k.Advance(ttl + 2*time.Second)
			if n := p.silent(1500*time.Millisecond, many); n > 0 {
				t.Errorf("%d of %d grains are silent after\n%v", n, many, plan)
			}
		}
		for i := range 4 { // all die at once
			c.Kill(i + 1)
		}
		for i := range 4 {
			c.Restart(i + 1)
		}
		c.Ready()
		k.Advance(ttl + 2*time.Second)
		if n := p.silent(1500*time.Millisecond, many); n > 0 {
			t.Errorf("%d of %d grains are silent after the death of all", n, many)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, b := range p.bad {
			t.Error(b)
		}
	}, testkit.Table(table), testkit.Nodes(4))
}

// TestAlwaysOnEnds: a grain that deactivates itself, or is unloaded, is not woken, until it is called again.
func TestAlwaysOnEnds(t *testing.T) {
	table, kind, wake, stop := beatKinds(grains.AlwaysOn())
	testkit.Virtual(t, func(k *testkit.Kit) {
		pulsesNow = newPulses()
		c, ctx := k.Cluster(), k.Context()
		c.Ready()
		active := func(want int) {
			t.Helper()
			k.Advance(5 * time.Second)
			list, err := k.Node().Grains(ctx, inspect.GrainQuery{Kind: "beat"})
			if err != nil || len(list.Grains) != want {
				t.Errorf("%v, %v, want %d", list, err, want)
			}
		}
		a := kind.Get("a\x00/\xff")
		for _, end := range []func() error{
			func() error { _, err := stop.Call(ctx, a).Get(ctx); return err },
			func() error { return grains.Unload(ctx, a) },
		} {
			if _, err := wake.Call(ctx, a).Get(ctx); err != nil {
				t.Error(err)
			}
			active(1)
			if err := end(); err != nil {
				t.Error(err)
			}
			active(0) // Deactivate is done after its turn
			for i := range 3 {
				c.Kill(i + 1)
				c.Restart(i + 1)
			}
			c.Ready()
			active(0)
		}
		// One that is not active is unloaded too.
		pulsesNow.fails["b"] = 100
		if _, err := wake.Call(ctx, kind.Get("b")).Get(ctx); !errors.Is(err, grains.ErrActivation) {
			t.Error(err)
		}
		k.Advance(20 * time.Second)
		if n := pulsesNow.activations("b"); n < 3 {
			t.Errorf("%d activations", n)
		}
		if err := grains.Unload(ctx, kind.Get("b")); err != nil {
			t.Error(err)
		}
		had := pulsesNow.activations("b")
		k.Advance(5 * time.Minute)
		if n := pulsesNow.activations("b"); n != had {
			t.Errorf("%d activations after Unload", n-had)
		}
	}, testkit.Table(table), testkit.Nodes(3))
}

// TestAlwaysOnFails: where OnActivate fails it runs again after 1, 2, 4 .. 60 s.
func TestAlwaysOnFails(t *testing.T) {
	table, kind, wake, _ := beatKinds(grains.AlwaysOn())
	testkit.Virtual(t, func(k *testkit.Kit) {
		p := newPulses()
		p.fails["a"] = 10
		pulsesNow = p
		ctx := k.Context()
		k.Cluster().Ready()
		if _, err := wake.Call(ctx, kind.Get("a")).Get(ctx); !errors.Is(err, grains.ErrActivation) {
			t.Error(err)
		}
		k.Advance(40 * time.Second)
		if n := p.activations("a"); n < 6 || n > 8 { // at 0, 0, 1, 3, 7, 15, 31 s
			t.Errorf("%d activations in 40 s", n)
		}
		k.Advance(5 * time.Minute)
		if n := p.activations("a"); n != 11 {
			t.Errorf("%d activations, want 11", n)
		}
		k.Advance(time.Minute)
		if p.silent(2*time.Second, 1) != 0 {
			t.Error("it does not tick")
		}
	}, testkit.Table(table), testkit.Nodes(3))
}

// TestAlwaysOnOfWorkers: a StatelessWorker is on every node, and cannot be always on.
func TestAlwaysOnOfWorkers(t *testing.T) {
	table := raysys.NewTable()
	grains.DefineIn[beat](table, "beat", grains.AlwaysOn(), grains.StatelessWorker(0))
	_, err := system.New(system.Config{Table: table})
	if !errors.Is(err, raysys.ErrBadDefinition) || !strings.Contains(err.Error(), "AlwaysOn and StatelessWorker") {
		t.Error(err)
	}
}
