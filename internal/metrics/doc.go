// Package metrics shows what a node counts to Prometheus, and its health to what watches over it.
//
//	GET /metrics         ──► Source.Sample ──► the families of [Sample], and those of the process
//	GET /healthz         ──► 200 while the process serves, also while its store is away
//	GET /readyz          ──► 200 of an active host that does not drain; else 503 and why
//	GET /debug/pprof/    ──► profiles; package page says to whom
//
// The nouns:
//
//   - A [Sample] is what the node says of itself at one scrape. There are no keys and no values of the program in it.
//   - A [Source] makes it. One that fails or panics loses the families of the node, and the scrape says so.
//   - The program's collectors are those of prometheus.DefaultGatherer. They cost a scrape 2 s and their own families at most.
//   - A label has [MaxNames] names at most: what is beyond is added up as "other".
package metrics
