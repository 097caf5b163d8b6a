// Package page serves what the commands of raysys show to browsers, and to raysys --url. It reads, and keeps no state of the cluster.
//
//	GET /api/KIND, /api/get/ID  ──► access ──► answers ──► Source: a *system.Node, which asks its cluster
//	GET /metrics, /healthz ...  ──► Config.Others: of package metrics, for everybody
//
// The nouns:
//
//   - A [Server] listens at one address. Its connections, their headers and how long a request lasts are bounded.
//   - access says who may read. On loopback that is everybody of this host, but no page of another site; beyond it, who has the token.
//   - answers makes each answer once for all who ask for it within a second, and a few at once. Nothing is asked that no one waits for.
//
// Invariants:
//
//	readers of one question within a second  ⇒  the nodes are asked once
//	no reader                                ⇒  the nodes are not asked
//	a question that panics                   ⇒  its readers get an error, and the program goes on
package page
