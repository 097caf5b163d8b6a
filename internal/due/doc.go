// Package due has the records of things that are due at a time, as the registry keeps them and package schedule reads them, and what a
// node with package schedule in its program registers here.
//
//	schedule ── Store ──▶ registry: the record "r/", in the shard of its name; its leader waits for the time
//	schedule ◀── Take ── node ◀── what is due, 256 at a time, to a worker that has the function
//	         ── Store ──▶ the next record
//
// It is a leaf: what Data says is nothing to the registry, and where a record lies is nothing to schedule.
package due
