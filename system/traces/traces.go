package traces

import (
	"context"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/system"
)

// The attributes of a span. Its name is that of the function: a task's, or KIND.METHOD.
const (
	nodeKey    = attribute.Key("raysys.node")
	attemptKey = attribute.Key("raysys.attempt")   // from 1
	waitedKey  = attribute.Key("raysys.waited_ms") // of a call, for its turn; where that is known
	grainKey   = attribute.Key("raysys.key")
)

// maxText bounds a text of the program in a span, in bytes.
const maxText = 4096

// Option changes what New makes.
type Option func(*tracing)

// Keys gives a span the key of its grain, as raysys.key. A key may name a person, so unless asked for it is left out.
func Keys() Option { return func(t *tracing) { t.keys = true } }

type tracing struct {
	tracer trace.Tracer
	keys   bool
}

// New makes the Tracing of a node's Config. A nil provider is that of otel.GetTracerProvider.
func New(provider trace.TracerProvider, opts ...Option) system.Tracing {
	if provider == nil {
		provider = otel.GetTracerProvider()
	}
	t := &tracing{tracer: provider.Tracer("github.com/raysys/raysys/system/traces")}
	for _, o := range opts {
		o(t)
	}
	return t
}

// Parent is that of system.Tracing.
func (t *tracing) Parent(ctx context.Context) string {
	s := trace.SpanContextFromContext(ctx)
	switch {
	case !s.IsValid():
		return ""
	case !s.IsSampled():
		return system.NotSampled
	}
	return "00-" + s.TraceID().String() + "-" + s.SpanID().String() + "-01"
}

// Begin is that of system.Tracing.
func (t *tracing) Begin(
	ctx context.Context, w *raysys.Work, parent string, waited time.Duration,
) (spanned context.Context, end func(err error)) {
	// What is no traceparent begins a trace of its own, which the provider samples or not.
	ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": parent})
	of := []attribute.KeyValue{attemptKey.Int(raysys.Attempt(ctx))}
	if turn, _, err := core.TurnOf(ctx); err == nil {
		of = append(of, nodeKey.String(text(string(turn.Job().Node))))
	}
	if waited > 0 {
		of = append(of, waitedKey.Float64(float64(waited)/1e6))
	}
	if t.keys && w.Key() != "" {
		of = append(of, grainKey.String(text(w.Key())))
	}
	kind := trace.WithSpanKind(trace.SpanKindServer)
	ctx, span := t.tracer.Start(ctx, text(w.Name()), kind, trace.WithAttributes(of...))
	return ctx, func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, text(err.Error()))
		}
		span.End()
	}
}

// text is what a span may hold: OTLP refuses a whole batch for one text that is no UTF-8.
func text(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxText)], "�") }
