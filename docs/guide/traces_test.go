package guide_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
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
)

type desk struct{}

var (
	spans    = tracetest.NewInMemoryExporter()
	provider = sdk.NewTracerProvider(sdk.WithSyncer(spans))
	tracer   = provider.Tracer("guide")
	stock    = tasks.Define("guide.stock", func(_ context.Context, n int) (int, error) { return 10 - n, nil })
	desks    = grains.Define[desk]("guide.desk")
	ordered  = grains.Method(desks, "order", (*desk).Order)
)

func (d *desk) Order(ctx context.Context, n int) (int, error) {
	turn := trace.SpanFromContext(ctx)
	turn.SetAttributes(attribute.Int("items", n))
	checked, span := turn.TracerProvider().Tracer("shop").Start(ctx, "check stock")
	left, err := stock.Go(checked, n).Get(checked)
	span.End()
	raysys.Logger(ctx).Info("an order", "left", left) // the line has the attribute trace_id
	return left, err
}

func TestTraces(t *testing.T) {
	cfg := system.Config{Tracing: traces.New(provider)} // an sdk/trace.TracerProvider, with the exporter of your choice
	var log bytes.Buffer
	cfg.Logger = zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(&log), zap.InfoLevel))
	n, err := system.New(cfg)
	if err == nil {
		err = n.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	outer, span := tracer.Start(t.Context(), "test")
	ctx := n.Context(outer)
	if left, err := ordered.Call(ctx, desks.Get("one"), 3).Get(ctx); left != 7 || err != nil {
		t.Error(left, err)
	}
	span.End()
	quiet := n.Context(trace.ContextWithSpanContext(t.Context(), span.SpanContext().WithTraceFlags(0))) // as of a request that is not sampled
	if left, err := ordered.Call(quiet, desks.Get("one"), 4).Get(quiet); left != 6 || err != nil {
		t.Error(left, err)
	}
	if err := n.Close(context.Background()); err != nil {
		t.Error(err)
	}
	var names []string
	for _, s := range spans.GetSpans() {
		names = append(names, s.Name)
	}
	if got, want := strings.Join(names, ", "), "guide.stock, check stock, guide.desk.order, test"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if !strings.Contains(log.String(), span.SpanContext().TraceID().String()) {
		t.Errorf("no trace_id in %s", &log)
	}
}
