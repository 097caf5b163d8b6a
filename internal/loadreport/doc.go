// Package loadreport is what nodes tell each other of how busy they are, as values and as bytes.
//
//	taskengine: Engine.Load, Engine.Report ──► Load, rooms, Received ── Append ──► KindLoad ── Read ──► system: the view of its peers
//	            with results ──► Load ── AppendLoad ──► KindTaskResult ── ReadLoad ──► taskengine
//
// The nouns:
//
//   - A [Load] is how busy a node is with tasks. Its Rest is what is free of all but CPU ([EncodeRest], [ReadRest]).
//   - Rooms are what is free in the bundles of the node ([EncodeRooms], [ReadRooms]), [MaxRooms] of them at most.
//   - [Received] is how many tasks of the receiver a report counts, so that it can subtract those on their way.
//
// A reader bounds what it is told: sums of counts do not overflow, and a part of a load is at most the whole.
package loadreport
