// Package generator has tasks whose results come one by one: Ray's generators, on raysys.
//
//	producer: a task ── yield ──► chunks ──► buffer: a grain beside the task ◄── asks by position, two ahead ── All: a loop of the reader
//
// Define makes a function into a generator, and Go begins its task at once, as it would any other:
//
//	var lines = generator.Define("lines", func(ctx context.Context, path string, yield func(Line) bool) error { ... })
//
//	s := lines.With(raysys.CPU(1)).Go(ctx, "big.csv")
//	for l, err := range s.All(ctx) { ... } // an error of the producer is the last element
//
// Rules for the user:
//
//  1. yield waits while two chunks are unread: of 1,024 items, 256 KiB, or what came within 5 ms. The task gives its CPU back meanwhile.
//  2. yield returns false once nobody reads: after Stop, after the loop, when the ctx of Go or of All has ended, when the reader's node is
//     gone. The ctx of the producer ends then, too. Either side may take as long as it likes for an item: no time limit ends it.
//  3. A Stream has one reader, of one All, on the node that called Go. Call Stop on one that is not read.
//  4. The task has raysys.Retries(0): when its node dies, or the connection to it breaks, the loop ends with raysys.ErrNodeDead. With Retries(n) the next attempt runs from the
//     start, and passes over as many items as the loop has had. So it must be deterministic: yield the same items in the same order.
//  5. Items travel as bytes, and hold no references.
//
// In the code: Stream (generator.go) is made of a reader (reader.go), the task is run by a sender (sender.go), and they meet at a box (box.go).
// One box is the buffer of an attempt. Another one tells the reader which attempt there is, and the next attempt how much has been read. A box
// has nothing but calls that wait, which are made again when its node is gone: so nothing in it can be lost.
package generator
