// Package embedded is the store.KV that lives in the process: in memory, or on disk when a directory is given. It is
// what a single host runs on, and what tests run on.
//
//	Txn ──► queue ──► one committer ──► memory, undone when the disk refuses
//	                       │
//	                       └──► bbolt: one fsync for all that waited   (with a directory)
//
// Everything is held in memory; the disk is written before a change is acknowledged and read only by Open. Watches are
// woken by the change itself. Sessions live as long as the process: keys that they hold are gone after a restart.
//
// Several nodes of one process may share a Store. Two processes may not: Open says which one has the directory.
//
//	kv, err := embedded.Open(embedded.Config{Dir: "/var/lib/app"})
//	...
//	defer kv.Close()
//
// It is no server: nothing outside the process reaches it.
package embedded
