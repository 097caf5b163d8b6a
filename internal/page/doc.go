// Package page serves what the commands of raysys show to browsers, and to raysys --url. It reads, and keeps no state of the cluster.
//
//	GET /api/KIND, /api/get/ID  ──► access ──► answers ──► Source: a *system.Node, which asks its cluster
//	GET /debug/pprof/           ──► access ──► Config.Others: of package metrics
//	GET /metrics/cluster        ──► answers, for everybody: numbers alone
//	GET /metrics, /healthz ...  ──► Config.Others, for everybody
//
// The nouns:
//
//   - A [Server] listens at one address. Its connections, their headers and how long a request lasts are bounded.
//   - access says who may read. On loopback that is everybody of this host, but no page of another site, and nobody behind a proxy; beyond it, who has
//     the token.
//   - A reader is a host that connects. Its connections, requests and questions are bounded by rooms, so that others are answered beside it.
//   - answers makes each answer once for all who ask for it within a second, and a few at once. Nothing is asked that no one waits for.
//
// Invariants:
//
//	readers of one question within a second  ⇒  the nodes are asked once
//	no reader                                ⇒  the nodes are not asked
//	a question that panics                   ⇒  its readers get an error, and the program goes on
//	/healthz, /readyz                        ⇒  answered, however many requests there are
package page
