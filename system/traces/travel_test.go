package traces_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/system/traces"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

var (
	large = tasks.Define("traces-test.large", func(_ context.Context, n int) ([]byte, error) {
		return slices.Repeat([]byte{byte(n)}, 2*raysys.ObjectSize), nil
	})
	relay = tasks.Define0("traces-test.relay", func(ctx context.Context) (bool, error) {
		return broken.With(raysys.OnNode("n3")).Go(ctx).Get(ctx)
	})
	hears = grains.Define[desk]("traces-test.hears", grains.Durable())
	hear  = grains.Action(hears, "hear", func(d *desk, ctx context.Context, n int) error { d.Sum.Value += n; return nil })
	tells = grains.Method(desks, "tell", func(d *desk, ctx context.Context, n int) (int, error) {
		d.Sum.Value += n
		return d.Sum.Value, hear.Tell(ctx, hears.Get("one"), n)
	})
	whereDesk  = grains.Method0(desks, "where", func(_ *desk, ctx context.Context) (string, error) { return nodeOf(ctx), nil })
	whereHears = grains.Method0(hears, "where", func(_ *desk, ctx context.Context) (string, error) { return nodeOf(ctx), nil })
)

// count is how many spans have the name.
func count(spans *tracetest.InMemoryExporter, name string) (n int) {
	for _, s := range spans.GetSpans() {
		if s.Name == "traces-test."+name {
			n++
		}
	}
	return n
}

// TestNodeWithout: a node without a Tracing passes the trace on.
func TestNodeWithout(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	provider := sdk.NewTracerProvider(sdk.WithSyncer(spans))
	k := testkit.New(t, testkit.Nodes(3), testkit.Each(func(i int, cfg *system.Config) {
		if i != 2 {
			cfg.Tracing = traces.New(provider)
		}
	}))
	ctx, span := provider.Tracer("test").Start(k.Context(), "driver")
	ctx = k.Node().Context(ctx)
	if has, err := relay.With(raysys.OnNode("n2")).Go(ctx).Get(ctx); !has || err != nil {
		t.Error(has, err)
	}
	span.End()
	const want = "driver(broken)"
	testkit.Eventually(t, 10*time.Second, want, func() bool { return shape(spans.GetSpans(), trace.SpanID{}) == want })
}

// TestMadeAgain: the run that makes a lost value again is in the trace of the first, also where its reader is in none.
func TestMadeAgain(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	provider := sdk.NewTracerProvider(sdk.WithSyncer(spans))
	testkit.Virtual(t, func(k *testkit.Kit) {
		t := k.T()
		ctx, span := provider.Tracer("test").Start(k.Context(), "driver")
		var refs []raysys.Ref[[]byte]
		for i := range 12 {
			refs = append(refs, large.Go(ctx, i))
		}
		if _, _, err := raysys.Wait(ctx, refs, len(refs)); err != nil {
			t.Fatal(err)
		}
		span.End()
		if n := count(spans, "large"); n != 12 {
			t.Errorf("%d spans", n)
		}
		k.Cluster().Kill(2)
		for i, r := range refs {
			if v, err := r.Get(k.Context()); err != nil || v[0] != byte(i) {
				t.Errorf("%d: %v", i, err)
			}
		}
		lost := 0
		for _, s := range spans.GetSpans() {
			if n, _ := attributeOf(s, "raysys.node"); n.AsString() == "n2" {
				lost++
			}
			if s.SpanContext.TraceID() != span.SpanContext().TraceID() {
				t.Errorf("%s is in another trace", s.Name)
			}
		}
		if n := count(spans, "large"); lost == 0 || n != 12+lost {
			t.Errorf("%d spans for 12 values, %d of them lost", n, lost)
		}
	}, testkit.Nodes(3), testkit.Config(system.Config{Tracing: traces.New(provider)}))
}

// TestToldLater: a message of a Durable turn that leaves after the death of its sender's node is in the sender's trace.
func TestToldLater(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	provider := sdk.NewTracerProvider(sdk.WithSyncer(spans))
	testkit.Virtual(t, func(k *testkit.Kit) {
		t, c := k.T(), k.Cluster()
		from, err := whereHears.Call(k.Context(), hears.Get("one")).Get(k.Context())
		at, sender := from, grains.Grain[desk]{}
		for i := 0; err == nil && at == from; i++ {
			sender = desks.Get(fmt.Sprint(i))
			at, err = whereDesk.Call(k.Context(), sender).Get(k.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		i, j := int(at[1]-'0'), int(from[1]-'0')
		var others []int
		for n := range 4 {
			if n != j {
				others = append(others, n)
			}
		}
		c.Split([]int{j}, others)
		ctx, span := provider.Tracer("test").Start(k.Context(), "driver")
		if _, err := tells.Call(ctx, sender, 1).Get(ctx); err != nil {
			t.Fatal(err)
		}
		span.End()
		if n := count(spans, "hears.hear"); n != 0 {
			t.Errorf("the message has arrived: %d", n)
		}
		c.Kill(i)
		c.Heal()
		const want = "driver(desk.tell(hears.hear))"
		testkit.Eventually(t, time.Minute, want, func() bool { return shape(spans.GetSpans(), trace.SpanID{}) == want })
	}, testkit.Nodes(3), testkit.Config(system.Config{Tracing: traces.New(provider)}))
}

// nodeOf is the node of the turn that ctx is of.
func nodeOf(ctx context.Context) string {
	turn, _, err := core.TurnOf(ctx)
	if err != nil {
		return err.Error()
	}
	return string(turn.Job().Node)
}

var (
	hop     = tasks.Define("traces-test.hop", hopped)
	hopDone = make(chan struct{}, 1)
)

// hopped submits its successor under a span of its own, and returns.
func hopped(ctx context.Context, n int) (int, error) {
	if n == 0 {
		hopDone <- struct{}{}
		return 0, nil
	}
	within, span := trace.SpanFromContext(ctx).TracerProvider().Tracer("test").Start(ctx, "hop")
	again.Load().Go(within, n-1)
	span.End()
	return n, nil
}

var again atomic.Pointer[tasks.Task[int, int]]

// TestNoChain: neither a task that submits its successor under a span nor a driver that begins many spans leaves memory behind.
func TestNoChain(t *testing.T) {
	again.Store(&hop)
	provider := sdk.NewTracerProvider(sdk.WithBatcher(tracetest.NewNoopExporter()))
	k := testkit.New(t, testkit.Config(system.Config{Tracing: traces.New(provider)}))
	ctx, span := provider.Tracer("test").Start(k.Context(), "driver")
	defer span.End()
	live := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for _, row := range []struct {
		what string
		of   func(n int)
	}{
		{"successors", func(n int) { hop.Go(ctx, n); <-hopDone }},
		{"spans of a driver", func(n int) {
			for i := range n {
				within, span := provider.Tracer("test").Start(ctx, "one")
				if _, err := score.Go(within, i).Get(within); err != nil {
					t.Fatal(err)
				}
				span.End()
			}
		}},
	} {
		row.of(3000)
		before := live()
		row.of(9000)
		if grew := int64(live() - before); grew > 1<<20 {
			t.Errorf("%s: %d bytes are left of 9000", row.what, grew)
		}
	}
}
