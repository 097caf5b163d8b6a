package traces_test

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/system/traces"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// oddError panics where it is nil.
type oddError struct{ text string }

func (e *oddError) Error() string { return e.text }

// endsAs ends as its argument says.
func endsAs(ctx context.Context, how string) (int, error) {
	switch how {
	case "a typed nil":
		return 0, (*oddError)(nil)
	case "an error":
		return 0, errRefused
	case "Goexit":
		runtime.Goexit()
	case "a panic":
		panic(how)
	case "a panic with an error":
		panic(errRefused)
	case "a panic with a typed nil":
		panic((*oddError)(nil))
	case "a panic with nil":
		panic(nil)
	case "a deadline":
		<-ctx.Done()
		return 0, ctx.Err()
	case "the third attempt":
		if raysys.Attempt(ctx) < 3 {
			return 0, errRefused
		}
	}
	return 1, nil
}

var (
	endingTask = tasks.Define("traces-test.end\xffing", endsAs)
	endingCall = grains.Method(notes, "ending", func(_ *struct{}, ctx context.Context, how string) (int, error) { return endsAs(ctx, how) }).Idempotent()
)

// counted counts the spans that begin and end.
type counted struct {
	system.Tracing
	begun, ended, again atomic.Int32
}

func (c *counted) Begin(ctx context.Context, w *raysys.Work, parent string, waited time.Duration) (context.Context, func(error)) {
	ctx, end := c.Tracing.Begin(ctx, w, parent, waited)
	c.begun.Add(1)
	over := atomic.Bool{}
	return ctx, func(err error) {
		if over.Swap(true) {
			c.again.Add(1)
		}
		end(err)
		c.ended.Add(1)
	}
}

// TestEndings: work ends in a trace as it does without one, and its span ends once.
func TestEndings(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	provider := sdk.NewTracerProvider(sdk.WithSyncer(spans))
	for _, nodes := range []int{0, 2} {
		c := &counted{Tracing: traces.New(provider)}
		k := testkit.New(t, testkit.Nodes(nodes), testkit.Config(system.Config{Tracing: c}))
		for how, text := range map[string]string{
			"a typed nil": "its method Error panics", "an error": "refused", "Goexit": "Goexit", "a panic": "panic: a panic", "a panic with an error": "panic: refused",
			"a panic with a typed nil": "panic: <nil>", "a panic with nil": "panic: ", "a deadline": "context ", "nothing": "",
		} {
			for _, kind := range []string{"task", "call"} {
				run := func(ctx context.Context) string {
					var r raysys.Ref[int]
					limit := raysys.Deadline(time.Minute)
					if how == "a deadline" {
						limit = raysys.Deadline(50 * time.Millisecond)
					}
					if kind == "task" {
						r = endingTask.With(limit).Go(ctx, how)
					} else {
						r = endingCall.With(limit).Call(ctx, notes.Get("one"), how)
					}
					_, err := r.Get(ctx)
					text, _, _ := strings.Cut(fmt.Sprint(err), "deadline exceeded ") // which node notices it first differs
					return text
				}
				spans.Reset()
				want := run(k.Context())
				ctx, span := provider.Tracer("test").Start(k.Context(), "driver")
				if got := run(ctx); got != want {
					t.Errorf("%s of a %s: %s, want %s", how, kind, got, want)
				}
				testkit.Eventually(t, 10*time.Second, "the span ends", func() bool { return c.ended.Load() == c.begun.Load() })
				span.End()
				all := spans.GetSpans()
				if len(all) != 2 || !strings.Contains(all[0].Status.Description, text) || (text == "") != (all[0].Status.Description == "") || !utf8.ValidString(all[0].Name) {
					t.Errorf("%s of a %s: %v", how, kind, all)
				}
			}
		}
		if c.again.Load() > 0 || c.begun.Load() != 18 {
			t.Errorf("%d spans, %d ended again", c.begun.Load(), c.again.Load())
		}
	}
}

// TestNotSampledWithin: below a span of the program that its provider does not sample there are none, also in a trace that is.
func TestNotSampledWithin(t *testing.T) {
	dropping := sdk.NewTracerProvider(sdk.WithSampler(sdk.NeverSample()))
	for _, nodes := range []int{0, 2} {
		k, tracer, spans := kit(t, nodes, sdk.AlwaysSample())
		outer, span := tracer.Start(k.Context(), "driver")
		ctx := k.Node().Context(outer) // whose turn is in the trace
		quiet, dropped := dropping.Tracer("test").Start(ctx, "dropped")
		if _, err := score.Go(quiet, 1).Get(ctx); err != nil {
			t.Fatal(err)
		}
		dropped.End()
		if _, err := score.Go(ctx, 1).Get(ctx); err != nil {
			t.Fatal(err)
		}
		span.End()
		const want = "driver(score(notes.note))"
		testkit.Eventually(t, 10*time.Second, want, func() bool { return shape(spans.GetSpans(), trace.SpanID{}) == want })
	}
}

// faulty is a Tracing that does one thing wrong.
type faulty struct {
	system.Tracing
	how string
}

func (f *faulty) Parent(ctx context.Context) string {
	if f.how == "Parent panics" {
		panic(f.how)
	}
	return f.Tracing.Parent(ctx)
}

func (f *faulty) Begin(ctx context.Context, w *raysys.Work, parent string, waited time.Duration) (context.Context, func(error)) {
	own, end := f.Tracing.Begin(ctx, w, parent, waited)
	switch f.how {
	case "Begin panics":
		panic(f.how)
	case "no end":
		return own, nil
	case "no context":
		return nil, end
	case "a foreign context":
		return context.Background(), end
	case "end panics":
		return own, func(err error) { end(err); panic(f.how) }
	}
	return own, end
}

// TestFaultyTracing: what a Tracing does wrong costs the span, and neither the work nor the next span.
func TestFaultyTracing(t *testing.T) {
	for _, how := range []string{"", "Parent panics", "Begin panics", "no end", "no context", "a foreign context", "end panics"} {
		spans := tracetest.NewInMemoryExporter()
		provider := sdk.NewTracerProvider(sdk.WithSyncer(spans))
		var log bytes.Buffer
		cfg := system.Config{Tracing: &faulty{traces.New(provider), how}, Filters: []raysys.Filter{
			func(ctx context.Context, _ *raysys.Work, next func(context.Context) error) error { return next(ctx) },
		}}
		cfg.Logger = zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(&log), zap.WarnLevel))
		n, err := system.New(cfg)
		if err == nil {
			err = n.Start(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		outer, span := provider.Tracer("test").Start(t.Context(), "driver")
		ctx := n.Context(outer)
		if v, err := score.Go(ctx, 4).Get(ctx); v != 4 || err != nil { // which calls a grain
			t.Errorf("%s: %d, %v", how, v, err)
		}
		span.End()
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
		want := "driver(score(notes.note))"
		switch how {
		case "Parent panics":
			want = "driver"
		case "Begin panics", "no end": // what is begun does not end
			want = "driver"
		case "no context", "a foreign context": // the work does not know its span
			want = "driver(score)"
		}
		if got := shape(spans.GetSpans(), trace.SpanID{}); got != want {
			t.Errorf("%s: %s, want %s", how, got, want)
		}
		if told := strings.Contains(log.String(), "Tracing."); told != (how != "" && how != "no end") {
			t.Errorf("%s: the log is %s", how, &log)
		}
	}
}
