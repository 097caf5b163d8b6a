// Package collective lets tasks or grains that work side by side combine vectors: AllReduce, Reduce, Broadcast.
//
// A Group is a kind of group, made once by Define. Join makes a task, a grain or a driver one rank of the group of a
// key; with all ranks in, an epoch begins, and the Member takes part in rounds.
//
//	rank 0 ── Member ──► participant 0 ◄════════► participant 1 ◄── Member ── rank 1
//	                        ▲ ║      parts of        ▲ ║
//	                        ║ ╚══════vectors═════════╝ ║
//	                     participant 3 ◄════════► participant 2
//
//	coordinator: brings the ranks together, and tells all of them when one is gone
//
// A rank's participant is a grain on the rank's node, where that hosts grains. The algorithms run there, and
// participants talk to each other directly. Vectors up to 1 MiB are exchanged by recursive doubling, and those up to 60 KB
// in groups of up to four by asking rank 0, which holds the calls until it has all. A larger AllReduce cuts the vector into
// a chunk per rank: each rank offers its parts of the others' chunks as objects, reads the parts of its own, and offers the
// sum, which all read; the participants pass on references alone. A Reduce above 60 KB goes along a chain, in pieces of
// 1 MiB, of which a rank has at most 8 under way; a large Broadcast is one object, to which a reference goes down a tree.
//
// Rules for the user:
//
//  1. All ranks call the same operations in the same order, one at a time, with vectors of the same length. If not, all
//     of them get ErrMismatch.
//  2. AllReduce gives every rank the same bits, and the same inputs give the same bits in every run: which rank's
//     numbers are added to which depends on the size of the group and of the vector alone.
//  3. Vectors that are passed in may be used again when the operation returns, also after an error; results belong to
//     the caller.
//  4. Leave in a defer. When a rank leaves early, gives up (its ctx ended), is late (Patience) or lost with its node,
//     the round fails for all ranks with a *RoundError that names the rank, the round and the reason. A rank whose own
//     part was over by then gets it in its next operation. After a RoundError all ranks Join again, the lost one
//     started anew, and a new epoch begins, with rounds counted from 0.
//  5. In an AllReduce above 1 MiB a chunk needs room in the object stores of the ranks that offer and read it: without it the
//     round fails with raysys.ErrStoreFull. Such an AllReduce counts as two rounds, and its Member keeps memory of the
//     vector's size for the next one.
//  6. What waits is a rank, never a node: a participant's turns are short, and ranks may be more than there are CPUs.
//
// A rank:
//
//	var grads = collective.Define[float32]("grads")
//
//	m, err := grads.Join(ctx, "run-7", rank, size)
//	if err != nil {
//		return err
//	}
//	defer m.Leave()
//	sum, err := m.AllReduce(ctx, gradient, collective.Sum)
//
// In the code a Member asks its participant for a round. A round is an algorithm and the check that all ranks mean the same
// (round.go, which chooses the algorithm by verb and size). An algorithm sends no messages itself: it takes parts in and
// gives parts out, which the participants carry.
//
//	verb                        size of the vector      algorithm       file           who sends to whom
//	AllReduce, up to 4 ranks    up to 60 KB             star            star.go        each rank calls rank 0, whose participant holds the calls (held.go)
//	AllReduce                   up to 1 MiB             doubling        doubling.go    participants in pairs, whole vectors
//	AllReduce                   above 1 MiB             exchange        objects.go     participants all to all, references; the Members read the objects
//	Reduce                      up to 60 KB             tree, upwards   tree.go        a participant to its parent
//	Reduce                      above 60 KB             chain           chain.go       a participant to the one before it, in pieces (window.go bounds them)
//	Broadcast                   any                     tree, downwards tree.go        a participant to its children, the vector or a reference
//
// Join (join.go) has the coordinator (coordinator.go) let the participants (participant.go) in together. How they end, alone
// or all at once, is in end.go.
//
// An answer to one call is that of a grains.LaterMethod: start, hold and join, without a message that a promise costs. What
// several ranks wait for, or what has to fail with a process that is no grain, is a promise (grains/internal/promise): the life
// of a Member, the end of a participant, the news of the coordinator. Neither can stand in for the other.
//
// It has no scatter and no functions of the user's own as an Op, and does not choose algorithms by measurement.
package collective
