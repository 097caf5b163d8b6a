// Package staterecord is how a State is stored: the bytes of its record, which name their format, so that later programs read them.
//
//	Value, encoded ── Seal ──► record ── Open ──► Value
//	                            │  ▲
//	           too large: an object  SealLarge, with its name ──► Large
//
// The nouns:
//
//   - A [Value] is the Value of a State to code that does not know its type.
//   - A record may retain objects: those that the value refers to, and the one that the State itself is ([Retained]).
//
// The grain engine writes records and reads them; the registry asks them what they retain.
package staterecord
