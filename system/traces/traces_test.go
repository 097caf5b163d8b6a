package traces_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/schedule"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/system/traces"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

type desk struct{ Sum grains.State[int] }

var (
	errRefused = errors.New("refused")

	desks = grains.Define[desk]("traces-test.desk", grains.Durable())
	notes = grains.Define[struct{}]("traces-test.notes")
	add   = grains.Method(desks, "add", (*desk).add)
	late  = grains.LaterMethod(notes, "late", func(_ *struct{}, _ context.Context, n int, l *grains.Later[int]) error {
		l.Settle(n)
		return nil
	}).Idempotent()
	note   = grains.Action(notes, "note", func(_ *struct{}, _ context.Context, what string) error { return fail(what) })
	score  = tasks.Define("traces-test.score", scored)
	broken = tasks.Define0("traces-test.broken", func(ctx context.Context) (bool, error) {
		return trace.SpanContextFromContext(ctx).IsValid(), nil
	})
	tick = grains.Action0(desks, "tick", func(_ *desk, ctx context.Context) error {
		_, err := broken.Go(ctx).Get(ctx)
		ticked <- struct{}{}
		return err
	})
	ticked = make(chan struct{}, 1)
)

func fail(what string) error {
	switch what {
	case "panic":
		panic("it is " + what)
	case "error":
		return errRefused
	}
	return nil
}

// add begins a span of its own, and has a task called below that, a grain below its turn.
func (d *desk) add(ctx context.Context, n int) (int, error) {
	d.Sum.Value += n
	inner, span := trace.SpanFromContext(ctx).TracerProvider().Tracer("test").Start(ctx, "check")
	_, err := score.With(raysys.OnNode("n3")).Go(inner, n).Get(inner)
	span.End()
	if err != nil {
		return 0, err
	}
	_, err = late.Call(ctx, notes.Get("of scores"), n).Get(ctx)
	return d.Sum.Value, err
}

func scored(ctx context.Context, n int) (int, error) {
	_, err := note.Call(ctx, notes.Get("one"), "fine").Get(ctx)
	return n, err
}

// kit is a cluster whose nodes trace to one exporter, which gets each span as it ends.
func kit(t *testing.T, nodes int, sampler sdk.Sampler, opts ...traces.Option) (*testkit.Kit, trace.Tracer, *tracetest.InMemoryExporter) {
	t.Helper()
	spans := tracetest.NewInMemoryExporter()
	provider := sdk.NewTracerProvider(sdk.WithSyncer(spans), sdk.WithSampler(sampler))
	k := testkit.New(t, testkit.Nodes(nodes), testkit.Config(system.Config{Tracing: traces.New(provider, opts...)}))
	return k, provider.Tracer("test"), spans
}

// attributeOf is one attribute of a span.
func attributeOf(s tracetest.SpanStub, key string) (v attribute.Value, ok bool) {
	for _, a := range s.Attributes {
		if string(a.Key) == key {
			return a.Value, true
		}
	}
	return v, false
}

// shape is the names of the spans below one, in the order in which they began.
func shape(all tracetest.SpanStubs, parent trace.SpanID) string {
	var of []tracetest.SpanStub
	for _, s := range all {
		if s.Parent.SpanID() == parent {
			of = append(of, s)
		}
	}
	slices.SortFunc(of, func(a, b tracetest.SpanStub) int { return a.StartTime.Compare(b.StartTime) })
	var text []string
	for _, s := range of {
		name := strings.TrimPrefix(s.Name, "traces-test.")
		if below := shape(all, s.SpanContext.SpanID()); below != "" {
			name += "(" + below + ")"
		}
		text = append(text, name)
	}
	return strings.Join(text, " ")
}

// TestOneTrace: what a driver's span has called, over three nodes, and alone.
func TestOneTrace(t *testing.T) {
	for _, nodes := range []int{0, 3} {
		k, tracer, spans := kit(t, nodes, sdk.AlwaysSample(), traces.Keys())
		ctx, span := tracer.Start(k.Context(), "driver")
		for range 2 {
			if nodes == 0 {
				break
			}
			if _, err := add.With(raysys.Deadline(time.Minute)).Call(ctx, desks.Get("a\xff"), 2).Get(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if nodes == 0 {
			if _, err := score.Go(ctx, 1).Get(ctx); err != nil {
				t.Fatal(err)
			}
		}
		span.End()
		testkit.Eventually(t, 10*time.Second, "all spans have ended", func() bool {
			return len(spans.GetSpans()) >= map[int]int{0: 3, 3: 11}[nodes]
		})
		want := map[int]string{0: "driver(score(notes.note))", 3: "driver(desk.add(check(score(notes.note)) notes.late) desk.add(check(score(notes.note)) notes.late))"}
		all := spans.GetSpans()
		if got := shape(all, trace.SpanID{}); got != want[nodes] {
			t.Errorf("%d nodes: %s", nodes, got)
		}
		on := map[string]bool{}
		for _, s := range all {
			if s.SpanContext.TraceID() != span.SpanContext().TraceID() {
				t.Errorf("%s is in another trace", s.Name)
			}
			if n, ok := attributeOf(s, "raysys.node"); ok {
				on[n.AsString()] = true
				if n, _ := attributeOf(s, "raysys.attempt"); n.AsInt64() != 1 {
					t.Errorf("%s: %v", s.Name, s.Attributes)
				}
			}
			key, has := attributeOf(s, "raysys.key")
			if has != strings.Contains(s.Name, "test.desk") && has != strings.Contains(s.Name, "test.notes") || s.Name == "traces-test.desk.add" && key.AsString() != "a�" {
				t.Errorf("%s: %v", s.Name, s.Attributes)
			}
			if waited, _ := attributeOf(s, "raysys.waited_ms"); s.Name == "traces-test.desk.add" && waited.AsFloat64() <= 0 {
				t.Errorf("%s: %v", s.Name, s.Attributes)
			}
		}
		if nodes > 0 && !on["n3"] {
			t.Errorf("spans of %v", on)
		}
	}
}

// TestNotSampled: of such a trace nothing is begun, and a method has no span.
func TestNotSampled(t *testing.T) {
	k, tracer, spans := kit(t, 2, sdk.NeverSample())
	ctx, span := tracer.Start(k.Context(), "driver")
	defer span.End()
	for _, ctx := range []context.Context{k.Context(), ctx} {
		if has, err := broken.Go(ctx).Get(ctx); has || err != nil {
			t.Error(has, err)
		}
	}
	if all := spans.GetSpans(); len(all) > 0 {
		t.Error(all)
	}
}

// TestFailures: the span of work that fails says why, and the error has the stack that it has without a trace.
func TestFailures(t *testing.T) {
	k, tracer, spans := kit(t, 0, sdk.AlwaysSample())
	for _, row := range []struct{ what, text, stack string }{
		{"error", "refused", ""}, {"panic", "panic: it is panic", "traces_test.fail("}, {"fine", "", ""},
	} {
		spans.Reset()
		ctx, span := tracer.Start(k.Context(), "driver")
		_, err := note.Call(ctx, notes.Get("one"), row.what).Get(ctx)
		span.End()
		all := spans.GetSpans()
		if len(all) != 2 || all[0].Status.Description != row.text || (all[0].Status.Code == codes.Error) != (row.text != "") {
			t.Errorf("%s: %v", row.what, all)
		}
		if !strings.Contains(string(raysys.Stack(err)), row.stack) {
			t.Errorf("%s: %v: %s", row.what, err, raysys.Stack(err))
		}
		if _, has := attributeOf(all[0], "raysys.key"); has {
			t.Errorf("a key without Keys: %v", all[0].Attributes)
		}
	}
}

// TestFiringBegins: a firing is a trace; that which its provider does not sample has no spans below it either.
func TestFiringBegins(t *testing.T) {
	for _, sampled := range []bool{true, false} {
		sampler := sdk.NeverSample()
		if sampled {
			sampler = sdk.AlwaysSample()
		}
		asked := &counting{Sampler: sampler}
		k, tracer, spans := kit(t, 2, asked)
		ctx, span := tracer.Start(k.Context(), "driver")
		if err := schedule.Call0(ctx, "traces", schedule.Every(24*time.Hour), tick, desks.Get("one")); err != nil {
			t.Fatal(err)
		}
		if err := schedule.Run(ctx, "traces"); err != nil {
			t.Fatal(err)
		}
		span.End()
		<-ticked
		if !sampled {
			if n := asked.n.Load(); n != 2 { // for the driver's span and the firing's
				t.Errorf("asked for %d spans", n)
			}
			continue
		}
		const want = "driver desk.tick(broken)"
		testkit.Eventually(t, 10*time.Second, want, func() bool { return shape(spans.GetSpans(), trace.SpanID{}) == want })
	}
}

// counting counts what a sampler is asked for.
type counting struct {
	sdk.Sampler
	n atomic.Int32
}

func (c *counting) ShouldSample(p sdk.SamplingParameters) sdk.SamplingResult {
	c.n.Add(1)
	return c.Sampler.ShouldSample(p)
}

// TestOddParents: what is no traceparent begins a trace, and one of a later version is read as W3C asks.
func TestOddParents(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	tr := traces.New(sdk.NewTracerProvider(sdk.WithSyncer(spans)))
	const id = "0af7651916cd43dd8448eb211c80319c"
	for parent, within := range map[string]bool{
		"": false, "00": false, "00-" + id + "-b7ad6b7169203331-01": true, "cc-" + id + "-b7ad6b7169203331-01-what": true,
		"ff-" + id + "-b7ad6b7169203331-01": false, "00-" + id + "-b7ad6b7169203331-01" + strings.Repeat("0", 1<<16): false,
		"00-00000000000000000000000000000000-b7ad6b7169203331-01": false, "\xff": false,
	} {
		spans.Reset()
		_, end := tr.Begin(t.Context(), &raysys.Work{}, parent, 0)
		end(errors.New(strings.Repeat("a\xff", 1<<20)))
		s := spans.GetSpans()[0]
		if (s.SpanContext.TraceID().String() == id) != within || len(s.Status.Description) > 10_000 || !utf8.ValidString(s.Status.Description) {
			t.Errorf("%.80q: %s, %d bytes", parent, s.SpanContext.TraceID(), len(s.Status.Description))
		}
	}
	if tr.Parent(t.Context()) != "" {
		t.Error("a parent without a span")
	}
}
