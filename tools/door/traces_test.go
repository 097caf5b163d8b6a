package door_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/door"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/system/traces"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

type stock struct{}

var (
	stocks = grains.Define[stock]("door-traces.stock")
	left   = grains.Method(stocks, "left", func(_ *stock, _ context.Context, n int) (int, error) { return 10 - n, nil }).With(raysys.OnNode("n3"))
	price  = tasks.Define("door-traces.price", func(ctx context.Context, n int) (int, error) {
		_, err := left.Call(ctx, stocks.Get("tea"), n).Get(ctx)
		return 5 * n, err
	})
	shops = grains.Define[struct{}]("door-traces.shop")
	buy   = grains.Method(shops, "order", func(_ *struct{}, ctx context.Context, n int) (int, error) {
		within, span := trace.SpanFromContext(ctx).TracerProvider().Tracer("test").Start(ctx, "check")
		defer span.End()
		return price.With(raysys.OnNode("n2")).Go(within, n).Get(within)
	})
)

// TestTraces: a request of a client that traces, with otelhttp at both ends, is one trace over three nodes: the client's span, the server's,
// the call's, the method's own, the task's, and the call that the task makes. What a client has not sampled has no span.
func TestTraces(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	provider := sdk.NewTracerProvider(sdk.WithSyncer(spans))
	with := []otelhttp.Option{otelhttp.WithTracerProvider(provider), otelhttp.WithPropagators(propagation.TraceContext{})}
	k := testkit.New(t, testkit.Nodes(3), testkit.Config(system.Config{Tracing: traces.New(provider)}))
	d, err := door.New(k.Node(), door.Method(buy, "Orders."), door.Task(price, "The price."))
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(otelhttp.NewHandler(d, "door", with...))
	defer s.Close()
	client := &http.Client{Transport: otelhttp.NewTransport(http.DefaultTransport, with...)}
	post := func(ctx context.Context, path string) {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+path, strings.NewReader("3"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		a, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		if text, err := io.ReadAll(a.Body); err != nil || a.StatusCode != http.StatusOK || strings.TrimSpace(string(text)) != "15" {
			t.Errorf("%s: %d %s: %v", path, a.StatusCode, text, err)
		}
	}
	for path, want := range map[string]string{
		"/call/grain/door-traces.shop/order/one": "buy > HTTP POST > POST > door-traces.shop.order > check > door-traces.price > door-traces.stock.left",
		"/call/task/door-traces.price":           "buy > HTTP POST > POST > door-traces.price > door-traces.stock.left",
	} {
		spans.Reset()
		ctx, span := provider.Tracer("test").Start(t.Context(), "buy")
		post(ctx, path)
		span.End()
		testkit.Eventually(t, 10*time.Second, want, func() bool { return chain(t, spans.GetSpans(), span) == want })
	}
	spans.Reset()
	ctx, span := sdk.NewTracerProvider(sdk.WithSampler(sdk.NeverSample())).Tracer("test").Start(t.Context(), "dropped")
	post(ctx, "/call/grain/door-traces.shop/order/one")
	span.End()
	s.Close() // its span has ended
	if all := spans.GetSpans(); len(all) > 0 {
		t.Errorf("of a trace that is not sampled: %v", all)
	}
}

// chain is the names of the spans, each below the one before; it fails where one is in another trace.
func chain(t *testing.T, all tracetest.SpanStubs, first trace.Span) string {
	var names []string
	for id := (trace.SpanID{}); ; {
		i := slices.IndexFunc(all, func(s tracetest.SpanStub) bool { return s.Parent.SpanID() == id })
		if i < 0 {
			return strings.Join(names, " > ")
		}
		if all[i].SpanContext.TraceID() != first.SpanContext().TraceID() {
			t.Errorf("%s is in another trace", all[i].Name)
		}
		names, id = append(names, all[i].Name), all[i].SpanContext.SpanID()
	}
}
