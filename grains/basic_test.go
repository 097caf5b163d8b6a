package grains_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
)

type Counter struct{ n int }

func (c *Counter) Add(ctx context.Context, d int) (int, error) { c.n += d; return c.n, nil }

var (
	counters = grains.Define[Counter]("counter")
	add      = grains.Method(counters, "add", (*Counter).Add)
)

type Peer struct{}

func (p *Peer) Call(ctx context.Context, g grains.Grain[Peer]) (string, error) {
	self, _ := peers.Self(ctx)
	if self == g {
		return "end", nil
	}
	return callPeer.Call(ctx, g, self).Get(ctx)
}

func (p *Peer) Loop(ctx context.Context, other grains.Grain[Peer]) (string, error) {
	self, _ := peers.Self(ctx)
	return bounce.Call(ctx, other, self).Get(ctx)
}

func (p *Peer) Bounce(ctx context.Context, back grains.Grain[Peer]) (string, error) {
	return ping.Call(ctx, back).Get(ctx)
}

func (p *Peer) Ping(ctx context.Context) (string, error) { return "pong", nil }

var (
	peers    = grains.Define[Peer]("peer")
	callPeer grains.Func[Peer, grains.Grain[Peer], string]
	bounce   grains.Func[Peer, grains.Grain[Peer], string]
	loop     grains.Func[Peer, grains.Grain[Peer], string]
	ping     = grains.Method0(peers, "ping", (*Peer).Ping)
)

func init() {
	callPeer = grains.Method(peers, "call", (*Peer).Call)
	bounce = grains.Method(peers, "bounce", (*Peer).Bounce)
	loop = grains.Method(peers, "loop", (*Peer).Loop)
}

func start(t testing.TB, cfg system.Config) (*system.Node, context.Context) {
	n, err := system.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return n, n.Context(context.Background())
}

func TestCounter(t *testing.T) {
	_, ctx := start(t, system.Config{})
	for i := range 10 {
		if v, err := add.Call(ctx, counters.Get("a"), 1).Get(ctx); v != i+1 || err != nil {
			t.Fatal(v, err)
		}
	}
}

func TestCycle(t *testing.T) {
	_, ctx := start(t, system.Config{})
	_, err := loop.Call(ctx, peers.Get("a"), peers.Get("b")).Get(ctx)
	if !errors.Is(err, raysys.ErrCycle) {
		t.Fatal(err)
	}
	t.Log(err)
}

func BenchmarkActorSync(b *testing.B) {
	_, ctx := start(b, system.Config{})
	g := counters.Get("a")
	for b.Loop() {
		add.Call(ctx, g, 1).Get(ctx)
	}
}

func BenchmarkActorAsync(b *testing.B) {
	_, ctx := start(b, system.Config{})
	g := counters.Get("a")
	refs := make([]raysys.Ref[int], 1000)
	for b.Loop() {
		for i := range refs {
			refs[i] = add.Call(ctx, g, 1)
		}
		for _, r := range refs {
			if _, err := r.Get(ctx); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.N)*1000/b.Elapsed().Seconds()/1e6, "Mcalls/s")
}

func BenchmarkIdle(b *testing.B) {
	for b.Loop() {
		n, ctx := start(b, system.Config{})
		var m0, m1 runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m0)
		for i := range 100000 {
			if i%5000 == 0 {
				add.Call(ctx, counters.Get(fmt.Sprint(i)), 1).Get(ctx)
			}
			add.Tell(ctx, counters.Get(fmt.Sprint(i)), 1)
		}
		add.Call(ctx, counters.Get("last"), 1).Get(ctx)
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m1)
		b.ReportMetric(float64(m1.HeapAlloc-m0.HeapAlloc)/100000, "B/grain")
		n.Close(context.Background())
	}
}
