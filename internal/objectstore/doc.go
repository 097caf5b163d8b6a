// Package objectstore is a node's object store: it keeps values above 64 KiB within a budget of memory, moves them to
// plain files and back, and hands out their bytes for sending, receiving and reading.
//
// A [Store] holds [Object] values. Each is one immutable sequence of bytes under a [Version], in one or more forms:
//
//	value     the live Go value; bytes are made of it when they are needed     Add
//	heap      one buffer that the collector owns; never used again             Receive(Heap), Bytes
//	segment   a memory file, mapped; used again while warm                     Receive(Segment, Sent), Share
//	file      a spill file: version, checksums, body                           room, or too large for memory
//	foreign   another process's segment, mapped read-only                      Attach
//
//	             Add              Receive              Attach
//	              |                  |                    |
//	              v                  v                    v
//	          +--------------------------------------------------+
//	          | budget: used + reserved <= Config.Budget         |   room: 1 warm segments  2 copies  3 redundant forms
//	          | mutex: bookkeeping only                          |         4 spill primaries, after Config.Pressure
//	          +--------------------------------------------------+
//	              |          |          |          |
//	            Chunk      Bytes       Map       Share
//
// Rules for the user:
//
//  1. The owner draws a nonce for each value that it adds: the [Version]. Bytes are cut into chunks of 1 MiB with a
//     CRC-32C each. The owner computes the sum of a chunk once, before the chunk first leaves memory: when it is sent
//     ([Chunk.Sum]), when its segment is shared, or when it is written to a file. From then on the sum stays with the
//     chunk ([Incoming.Filled], Shared.Sums, spill files). Bytes from a file, another process or another node are
//     verified against it before they are handed out. A value that is encoded again must have the sums that are known.
//  2. Each use ends with one call: [Object.Release] ends the node's need, [Chunk.Release], [Mapping.Close] and Unpin
//     end one use. Bytes are freed when the need and all uses are over.
//  3. Bytes that [Object.Bytes] returned belong to the collector and may be kept for ever; the bytes of a [Mapping] or
//     a [Chunk] end with it. Neither may be written to.
//  4. Every verb that may wait for memory, a disk or another's work takes a context.
//  5. Faults are errors: [raysys.ErrStoreFull] when neither memory nor disk has room, [raysys.ErrObjectLost] with the
//     reason when the last form of an object is gone, such as a spill file that was damaged or deleted.
//
// A value, for a start:
//
//	s, err := objectstore.Open(objectstore.Config{Budget: 1 << 30})
//	...
//	o, err := s.Add(ctx, id, 1, value)
//	v, err := o.Version(ctx)
//	c, err := o.Chunk(ctx, 0) // send c and c.Sum(), then c.Release()
//
// The store does not know other nodes: it neither fetches objects nor announces its own. It does not count
// references. It does not keep spill files safe from a crash of the host: the checksums show that a torn file is
// damaged, and the object is lost. [Object.Persist] makes a file that outlives process and host, with a label that says
// what it is kept for: Recovered, Adopt and Discard are for the next incarnation.
package objectstore
