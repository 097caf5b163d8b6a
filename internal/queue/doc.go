// Package queue is the run queue of an engine: an unbounded first-in first-out queue for many producers and many
// consumers that costs one fetch-and-add and one exchange on each side.
//
// It is a linked list of segments, each an array with an enqueue and a dequeue index (the FAA array queue of
// Ramalhete and Correia, 2016, in the form a garbage collector allows: segments are not reclaimed by hand). A
// consumer that finds a slot reserved but not yet written poisons it, and the producer moves on to the next, so
// neither waits for the other. Bounds are the caller's: Pushed and Popped count since the start.
package queue
