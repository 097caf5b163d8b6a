// Package faults proves what a cluster of raysys keeps when things break: processes that are killed or stop, networks that
// fall apart, a Consul that goes away, peers that lie. It has tests alone.
//
//	go test ./internal/faults                      the short form of each, as CI runs it
//	go test ./internal/faults -long -timeout 2h    what docs/reliability.md quotes
//
// With -figures FILE a test appends what it measured, as rows of that page.
package faults
