// Package refs keeps the references between nodes: which futures of this node other nodes hold, and which of theirs this
// node holds.
//
//	owner ◀── Await: the outcome? ─────────────── borrower
//	exports[n] ── pins ──▶ future                 imports[owner, n] ──▶ one future for all references that arrive
//	      ▲ counts lender, borrower                     │ borrow, in the reference table
//	      │                                             ▼
//	      ├◀─ Borrow n: count me ──────────────── registers, when a lender passed the reference on
//	      ├◀─ Drop n ──────────────────────────── gives back, 200 ms after the last use
//	      └◀─ Held n, n', … ───────────────────── the first frame of each connection: all that it holds
//
//	lender ── a reference, counted by lender until the owner counts the borrower ──▶ borrower
//
// Its nouns:
//
//   - [References] is all of one node. Its exports are the futures that other nodes hold; its imports are the futures of other
//     nodes, each under (owner, number); its reference table has the borrows, and the drops that wait.
//   - [Session] is a connection with the references over it. It encodes and decodes them (travel.go), and serves the peer's
//     requests about them. [Of] finds the session of a mesh.Peer, whose Session it is from Open on.
//   - A borrow is this node's claim, as the borrower, on one import. A lender is a third node that passed the reference on.
//   - Pending exports count the references in a frame that is not sent yet, so that they can be taken back.
//   - [RemoteSource] brings the outcome: it asks the owner, then the lenders, then [Objects] for copies.
//   - A pair is a reference to the result of a task that is not on the node of its submitter: it names the owner's future,
//     which has the bytes, and the submitter's, which has the recipe (pair.go). What is said here of a reference holds for
//     each half of a pair.
//   - A recovery is a question to the submitter of a lost value, which has it made again (recovery.go).
//
// What counts a reference to export n of an owner (rule C25):
//
//	event                                       count(n, holder) at the node that exports n
//	a reference is encoded for holder           + 1
//	the frame was not sent                      - 1
//	Borrow from holder                          + 1
//	Drop from holder                            - 1
//	Held from holder, at a new connection       = what it names + what was counted since the connection began
//	holder has been dead for 2 s                = 0, and it stays 0
//
// Invariants:
//
//	count(n, h) > 0 for some h      ⇔  exports[n] exists  ⇔  its future is pinned for them
//	a borrow is in the table        ⇒  counted, or lenders ≠ ∅: each of them, while it lives, exports the future and counts this node,
//	                                   or the submitter's future is borrowed, which keeps this one
//	the source of a future here     ⇒  has the submitter's future for as long as the owner's, where a reference brought both
//	no connection breaks for a while ⇒  the counts of all owners add up to the imports of all nodes
//	a borrow is counted             ⇒  lenders = ∅, and of the owner's counts for this node one stays until the borrow ends
//	nothing here refers to a future ⇒  its borrow ends at the next Tick: the collector's goroutine sets no alarm, sends nothing
//	a connection is over            ⇒  nothing is counted for a frame on it: the peer would never see that frame
//
// A reference is given back after its use and not before a reference that went home over a slower class can have
// arrived. The holder declares what it holds as the first frame of a connection, so frames that were lost with the one
// before, with references or with drops in them, need not be known.
package refs
