// Package codec turns Go values into bytes and back, by a plan that is made once per type.
//
// A [Plan] knows how a type looks on the wire, where its references are, how much memory a value holds and what its
// schema's fingerprint is. [Append] and [Decode] are the verbs.
//
//	value -- PlanOf(type) --> Append --> version | form | body ............ refs: side list of *core.Future
//	                                        1       1     raw      element code, five zeros, little-endian numbers
//	                                                2     binary   what MarshalBinary wrote, or GobEncode of a big.Float
//	                                                3     text     what MarshalText wrote
//	                                                4     proto    a protobuf message
//	                                                5     cbor     everything else
//
// The CBOR is the deterministic encoding of RFC 8949: structs are maps by field name, lengths are definite, heads are
// minimal, keys ascend, so equal values give equal bytes. Numeric slices and arrays stay one block of little-endian
// numbers wherever they stand (typed arrays, RFC 8746), so that a million float32 cost a memmove and not a loop.
//
// Rules for the user:
//
//  1. A type is encodable or it is not, and [PlanOf] says which, with the path of the offending field, before any value
//     exists.
//  2. A type's own binary or text methods, or its being a protobuf message, win over its fields. Methods that a struct
//     with several fields merely inherits from an embedded one do not count, nor do text methods of a named []byte,
//     string, number or bool, which is all there without them. A big.Float travels in its gob form: its text has less.
//  3. Fields may be added, removed and moved: unknown ones are ignored, missing ones stay zero. A changed field type is a
//     decode error where the wire shows it, and always a changed [Plan.Fingerprint].
//     A field with the tag raysys:"-" never travels, one with raysys:"omitzero" only while it is not zero.
//  4. Nil and empty stay distinct. Shared pointers arrive as copies, and a value that is part of itself is an error.
//  5. References travel as positions in a side list; the bytes alone never keep an object alive.
//  6. Decoded memory is fresh, and owned by the garbage collector; the input may be reused at once. [Plan.DecodeShared]
//     is the exception, for input that stays.
//
// Decoding trusts nothing: a length is compared with what is left of the input before memory is taken for it. So input
// of n bytes takes memory in proportion to n and to the size of the element types, at every level of nesting, whatever
// lengths it claims, and beyond 16 MiB never more than 64 times n. Interface values nest at most 32 deep, values of a type
// that contains itself 10,000. The basic types stand in an any without registration.
//
//	b, err := codec.Append(nil, &args, &refs)
//	...
//	var args Args
//	err = codec.Decode(b, &args, refs)
//
// [Plan.Pieces] encodes without copying large blocks, and [Plan.Stream] without gathering the whole, for what is written to a
// connection or a file at once.
//
// The package does not compress, does not checksum and does not keep the identity of shared pointers.
package codec
