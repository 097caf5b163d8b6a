// Package hostmemory reads how much memory a process may have, and has.
//
//	machine, cgroups 1 and 2 ──► Read ──► Gauge{Limit} ── Used ──► of the cgroup with that limit, else of the process
package hostmemory
