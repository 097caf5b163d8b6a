// Package countload puts systems that count each call once under load ("add n, return the sum"), and compares what they
// do: it calls counters from many callers, checks each sum, reads what the processes of a system used, and writes the
// table.
//
//	Load(peer, keyed, each, done) ──► a Result for each part ──► Line.Add, of all rounds ──► Table.String, Table.Wrong
//
// A Result is Wrong where a sum came twice, a call was lost or counted twice, or a call that was made again with its
// key did not get its first answer. A call that failed may have counted or not.
package countload
