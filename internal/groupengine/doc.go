// Package groupengine is placement groups: bundles of resources that are placed together and held for the work of the group.
//
//	Create ──► Record ──► Step: assign, under the next attempt ──► log ──► prepare at the nodes ──► all have room ──► log ──► hold
//	                 ▲                                                └─► one has not: log that they have no node ──► drop ─┐
//	                 └────── when the nodes report other resources, or have gathered what the group has waited for ◄────────┘
//
// Its nouns:
//
//   - A [Record] is a group as the log of its shard has it. The leader of the shard is the one that changes it.
//   - [Progress.Step] says what a leader does next with a group: change the record, or ask nodes. It is pure. What a leader knows
//     beside the record is its Progress, which the next leader does not have and does not need.
//   - An [Ask] is what a leader has a node do with its bundles. A [Node] does it: it carves them out of the node's ledger.
//   - A [Client] is a node's side for programs: it makes, finds and removes groups, and follows those that work of this node is in.
//
// Invariants:
//
//	a bundle that is held          is prepared at its node under the attempt in the record
//	an attempt                     has one assignment; a bundle that gets another node gets it under a later attempt
//	a prepared bundle              that the record does not have at that node, under that attempt, is dropped: the node asks
//	a node                         refuses at once what has no room; it queues no bundle; it gathers room for one group at a time, the oldest
//	a group that hopes             was made for workers about to join; once these are there it has its room, may get it, or has ended
//	a record goes                  when no living node has a bundle of it, and what ran in them has returned
package groupengine
