package traces_test

import (
	"context"
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/system/traces"
	"github.com/raysys/raysys/testkit"
)

var (
	echoes = grains.Define[struct{}]("traces-test.echo")
	echo   = grains.Method(echoes, "echo", func(_ *struct{}, _ context.Context, n int) (int, error) { return n, nil })
)

// BenchmarkCalls is a call of a grain in this process, 64 at a time: without a Tracing, with one and nothing sampled, with one trace of 100
// sampled, and with all.
func BenchmarkCalls(b *testing.B) {
	provider := sdk.NewTracerProvider(sdk.WithBatcher(tracetest.NewNoopExporter()))
	for _, row := range []struct {
		name string
		cfg  system.Config
		one  int // of so many turns of the driver is in a trace
	}{
		{"without", system.Config{}, 0},
		{"none", system.Config{Tracing: traces.New(provider)}, 0},
		{"100", system.Config{Tracing: traces.New(provider)}, 100},
		{"all", system.Config{Tracing: traces.New(provider)}, 1},
	} {
		b.Run(row.name, func(b *testing.B) {
			driver := testkit.New(b, testkit.Config(row.cfg)).Context()
			g := echoes.Get("one")
			for n := 0; n < b.N; n += 64 {
				ctx := driver
				if row.one > 0 && n/64%row.one == 0 {
					spanned, span := provider.Tracer("bench").Start(driver, "driver")
					ctx = spanned
					span.End()
				}
				var refs [64]raysys.Ref[int]
				for i := range refs {
					refs[i] = echo.Call(ctx, g, i)
				}
				if _, err := raysys.GetAll(driver, refs[:]).Values(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
