package system

import (
	"context"
	"time"

	"github.com/raysys/raysys"
)

// NotSampled is what Parent returns for a span that is not sampled: what is submitted below it has no spans.
const NotSampled = "-" // core.NotSampled

// Tracing gives spans to the work that a node runs: each run of a task, and each turn of a call of a grain, in a trace
// that is sampled. Timers, hooks and the kinds that packages of raysys define have none. traces.New makes one for
// OpenTelemetry. Where one panics the work goes on without a span, and the node's log has the panic.
type Tracing interface {
	// Parent returns the traceparent of the span that the program has put into ctx, as W3C Trace Context, version 00,
	// has it; nothing where there is none, and NotSampled for one that is not sampled. It is asked at each submission
	// under a context that is not the work's own, so it has to be quick.
	Parent(ctx context.Context) string
	// Begin begins the span of w, below parent, which came from a Parent of any node. For a firing of a schedule, which
	// begins a trace, parent is empty. waited is for how long a call has waited for its turn; 0: that is not known, as
	// of a task. The work runs under the context, and end is called once, with its error.
	Begin(ctx context.Context, w *raysys.Work, parent string, waited time.Duration) (
		spanned context.Context, end func(err error))
}
