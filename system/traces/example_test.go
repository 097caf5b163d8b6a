package traces_test

import (
	"context"
	"fmt"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/system/traces"
	"github.com/raysys/raysys/tasks"
)

type stock struct{}

// Order asks a task, whose span is below that of the call.
func (*stock) Order(ctx context.Context, n int) (int, error) { return price.Go(ctx, n).Get(ctx) }

var (
	price  = tasks.Define("traces.price", func(_ context.Context, n int) (int, error) { return 5 * n, nil })
	stocks = grains.Define[stock]("traces.stock")
	order  = grains.Method(stocks, "order", (*stock).Order)
)

// An exporter of your choice gets the spans; here it is one in memory.
func ExampleNew() {
	spans := tracetest.NewInMemoryExporter()
	provider := sdk.NewTracerProvider(sdk.WithSyncer(spans))
	n, _ := system.New(system.Config{Tracing: traces.New(provider)})
	_ = n.Start(context.Background())
	defer n.Close(context.Background())

	ctx, span := provider.Tracer("shop").Start(context.Background(), "buy")
	ctx = n.Context(ctx)
	sum, err := order.Call(ctx, stocks.Get("tea"), 3).Get(ctx)
	fmt.Println(sum, err)
	span.End()
	for _, s := range spans.GetSpans() {
		fmt.Println(s.Name, s.SpanContext.TraceID() == span.SpanContext().TraceID())
	}
	// Output:
	// 15 <nil>
	// traces.price true
	// traces.stock.order true
	// buy true
}
