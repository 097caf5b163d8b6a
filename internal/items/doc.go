// Package items makes chunks of items: values of one type as bytes, one after the other, so that what carries them is compiled once, whatever
// their type is.
//
//	item ── Codec.Append ──► Chunk: data, and where each item ends ── Codec.Decode ──► item
//
// Package queue, feed and generator share it. A Recent is what a grain remembers of the calls that it has done, so that a call that is made
// again after a fault counts once.
package items
