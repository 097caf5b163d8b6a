// Package crc32c computes the CRC-32C of bytes that no cache holds.
//
// hash/crc32 uses the processor's instruction for this sum, in three lanes. Out of a cache that is as fast as anything;
// out of memory it is not, since lanes that begin 1344 bytes apart and move on every 4032 are not what the processor
// fetches ahead. Where the processor multiplies without carries in 512 bits, this package goes through the bytes in one
// line instead, more than twice as fast (docs/internals/adr/0016-crc32c-by-folding.md). Elsewhere, and for what is short, it is
// hash/crc32.
package crc32c
