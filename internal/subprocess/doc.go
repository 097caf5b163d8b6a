// Package subprocess starts processes that do not outlive this one: supervised programs, Consul servers, nodes of tests and of
// benchmarks.
//
//	Start(cmd) ──► the process runs ──► the channel is closed: it has ended, cmd.ProcessState says how
//	     └─ on Linux the kernel kills it when this process ends, however that happens
//
// Elsewhere a child outlives a parent that is killed, unless it notices by itself that its input has ended.
package subprocess
