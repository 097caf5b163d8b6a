// Package traces has a node's work in the traces of OpenTelemetry:
//
//	cfg.Tracing = traces.New(tracerProvider)
//
// A span in the context that is given to Node.Context, to Call or to Go is the parent of the work; the spans of what
// that calls are below its own, on all nodes whose Config has a Tracing. In a task and in a method
// trace.SpanFromContext(ctx) is the span of the run, and a span that is begun with ctx is the parent of what is
// submitted under the context that this gave. Lines of raysys.Logger have the attribute trace_id.
//
//	HTTP request ──► otelhttp's span
//	                    └─ account.add          a turn of a grain
//	                         ├─ "check"         tracer.Start(ctx, "check") in the method
//	                         │    └─ score      a task, on another node
//	                         └─ audit.note      a Tell
//
// A trace that is not sampled costs a look at the request values of each call. Nothing but traceparent travels: neither
// tracestate nor baggage; a value of your own is a raysys.ContextKey.
package traces
