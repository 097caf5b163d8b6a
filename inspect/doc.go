// Package inspect has the types of what a cluster says of itself: to commands of raysys, with --json too, and to programs that ask a node.
//
//	Node.Status  ──▶ Status   nodes, leaders of shards, and what waits for resources
//	Node.Memory  ──▶ Memory   object stores, with their objects and why those are there; Memory.List ──▶ Objects, in one list
//	Node.Groups  ──▶ Groups   placement groups, and where their bundles are
//	Node.Streams ──▶ Streams  how far the subscriptions of streams are
//	Node.Tasks   ──▶ Tasks    tasks that wait or run
//	Node.Grains  ──▶ Grains   grains in memory, with their mailboxes
//	Node.Functions, Failures      counts and run times of functions, and what failed
//	Node.Timeline ─▶ Timeline what a file of a timeline has, and what not
//	Node.Waits   ──▶ Waits    who waits for what, down to the work at the end
//	Node.Ways    ──▶ Way      which nodes can open a connection to which
//	Node.Drained ──▶ Drained  what came of a drain
//
// They are data, and know no node: package system fills them. Times are in nanoseconds and sizes in bytes. A field may be
// added in any version, and the JSON of a node may come from another version.
package inspect
