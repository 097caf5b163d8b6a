// Package entries keeps the entries of the Maps of one durable grain in memory, encoded as they are stored.
//
//	activation ──► New, Add, Restore
//	Link.Set, Delete ──► Book.change ──► Changes ──► a commit; then Accept
//	                                 └─► TakeBack: the turn failed
//	Link.Get, All ──► a copy, decoded
//
// The nouns:
//
//   - A [Book] has the entries of all Maps of a grain: their bounds, and what the turn in progress has changed.
//   - A [Table] is the entries of one Map, which is a field of the grain's struct; its [Link] joins the Map to it.
//   - An entry is one record: its name has the field and the key ([AppendName]), its data is the value as package
//     staterecord writes a State.
//
// Invariants:
//
//	an entry       is never changed in place: what a commit was given stays what it is
//	a turn         that fails leaves all entries as they were when it began
//	what is stored and cannot be named is an error; what is stored of a field that has gone stays where it is
//
// The package does no I/O, and locks nothing: the turns of a grain alone use its Book.
package entries
