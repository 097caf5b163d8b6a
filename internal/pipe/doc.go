// Package pipe is one direction of a connection that has no socket: bytes in order, from one goroutine to another.
//
//	Write(b, due) ──▶ [ bytes, each readable from its due time on ] ──▶ Read
//	                    at most limit; Hold keeps everything back
//
// A [Half] is used by the streams that a relay passes on (package link), whose bytes come in frames, and twice by each
// connection of the network in memory (package linktest).
//
//	Read   returns what is due; otherwise waits for it, for End (io.EOF), for Break (its error), for the [Deadline]
//	Write  waits for room; what Break says, or Deafen (EPIPE), ends it
//	Hold   while it is on neither side learns anything: not of bytes, nor of End, Break or Deafen
package pipe
