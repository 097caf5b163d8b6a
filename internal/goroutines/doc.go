// Package goroutines keeps goroutines for work that comes in short pieces: a mailbox that has a message, a worker
// with tasks to pull.
//
// A new goroutine starts with a small stack, which grows by copying as the piece calls deeper: for a grain call that cost
// 1 us of 2 (measured), four times the rest of the wake-up. A kept goroutine has grown already, and handing it work is
// one channel send. No goroutine exists before the first piece, idle ones are bounded, and Close ends them.
package goroutines
