package grainengine_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/system"
)

type Counter struct{ n int }

func (c *Counter) Add(ctx context.Context, d int) (int, error) { c.n += d; return c.n, nil }

var (
	counters = grains.Define[Counter]("counter")
	add      = grains.Method(counters, "add", (*Counter).Add)
)

func BenchmarkActorSync(b *testing.B) {
	_, ctx := nodetest.Start(b, system.Config{})
	g := counters.Get("a")
	for b.Loop() {
		add.Call(ctx, g, 1).Get(ctx)
	}
}

func BenchmarkActorAsync(b *testing.B) {
	_, ctx := nodetest.Start(b, system.Config{})
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
		n, ctx := nodetest.Start(b, system.Config{})
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

// BenchmarkFarAsync is ActorAsync with the grain on another engine of the process: what encoding, routes and answers
// cost, without a network.
func BenchmarkFarAsync(b *testing.B) {
	r := newRovers(b)
	a, there := r.net.add("a"), r.net.add("b")
	r.on(there)
	ctx := a.context()
	g := r.kind.Get("x")
	refs := make([]raysys.Ref[int], 1000)
	for b.Loop() {
		for i := range refs {
			refs[i] = r.add.Call(ctx, g, 1)
		}
		for _, f := range refs {
			if _, err := f.Get(ctx); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.N)*1000/b.Elapsed().Seconds()/1e6, "Mcalls/s")
}

type Till struct{ N grains.State[int] }

var (
	tills  = grains.Define[Till]("till", grains.Durable())
	payIn  = grains.Method(tills, "pay", func(p *Till, _ context.Context, d int) (int, error) { p.N.Value += d; return p.N.Value, nil })
	lookAt = grains.Method0(tills, "look", func(p *Till, _ context.Context) (int, error) { return p.N.Value, nil }).ReadOnly()
)

// BenchmarkDurable is a transaction and a read of a Durable grain, which tell nobody anything.
func BenchmarkDurable(b *testing.B) {
	_, ctx := nodetest.Start(b, system.Config{})
	g := tills.Get("a")
	b.Run("turn", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := payIn.Call(ctx, g, 1).Get(ctx); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := lookAt.Call(ctx, g).Get(ctx); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// Small has a State of about 100 bytes, and Wide a Map.
type (
	Small struct{ S grains.State[Line] }
	Wide  struct{ Lines grains.Map[int, Line] }
	Line  struct {
		N    int
		Text string
	}
)

const (
	wideEntries = 10_000
	lineText    = "seventy letters or so, as a line of an order has them: article, size, note"
)

var (
	smalls   = grains.Define[Small]("small", grains.Durable())
	smallSet = grains.Method(smalls, "set", func(g *Small, _ context.Context, n int) (int, error) {
		g.S.Value = Line{n, lineText}
		return n, nil
	})
	wides   = grains.Define[Wide]("wide", grains.Durable())
	wideSet = grains.Method(wides, "set", func(g *Wide, _ context.Context, n int) (int, error) {
		g.Lines.Set(n%wideEntries, Line{n, lineText})
		return n, nil
	})
	wideFill = grains.Method(wides, "fill", func(g *Wide, _ context.Context, from int) (int, error) {
		for i := range 500 {
			g.Lines.Set(from+i, Line{-1, lineText})
		}
		return g.Lines.Len(), nil
	})
)

// BenchmarkMap is a turn that changes one of 10,000 entries, beside one that changes a State as large as an entry: by one
// caller, with what is stored on disk. B/call is what the process writes.
func BenchmarkMap(b *testing.B) {
	_, ctx := nodetest.Start(b, system.Config{Data: b.TempDir()})
	small, wide := smalls.Get("a"), wides.Get("a")
	for from := 0; from < wideEntries; from += 500 {
		if _, err := wideFill.Call(ctx, wide, from).Get(ctx); err != nil {
			b.Fatal(err)
		}
	}
	turns := map[string]func(n int) raysys.Ref[int]{
		"state of 100 B": func(n int) raysys.Ref[int] { return smallSet.Call(ctx, small, n) },
		"map of 10000":   func(n int) raysys.Ref[int] { return wideSet.Call(ctx, wide, n) },
	}
	for _, name := range []string{"state of 100 B", "map of 10000"} {
		b.Run(name, func(b *testing.B) {
			n, before := 0, written(b)
			for b.Loop() {
				n++
				if _, err := turns[name](n).Get(ctx); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(written(b)-before)/float64(n), "B/call")
		})
	}
}

// written is how many bytes the process has written.
func written(b *testing.B) (n int) {
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		b.Skip(err)
	}
	_, after, _ := strings.Cut(string(text), "wchar: ")
	if _, err := fmt.Sscan(after, &n); err != nil {
		b.Fatal(err)
	}
	return n
}
