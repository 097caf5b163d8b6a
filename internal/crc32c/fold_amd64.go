package crc32c

import (
	"hash/crc32"

	"golang.org/x/sys/cpu"
)

var folds = cpu.X86.HasAVX512F && cpu.X86.HasAVX512VPCLMULQDQ && cpu.X86.HasSSE42

// fold is Update of whole blocks. What a block contributes to the sum is what it leaves, modulo the polynomial, once it has
// been moved over all that follows. So the first block, with crc in it, is moved over the next one and added to it, which
// gives 256 bytes of the same remainder, and so on to the end.
func fold(crc uint32, p []byte) uint32 { return ^foldBlocks(&p[0], len(p)/block, ^crc, &foldBy) }

// foldBlocks folds blocks of them at p, the first with crc added to its first bytes, and returns the remainder.
//
//go:noescape
func foldBlocks(p *byte, blocks int, crc uint32, by *[2]uint64) uint32

// foldBy moves the two halves of 128 bits over a block. The bits of bytes count from the lowest, so that the first half is
// 64 powers above the second; and the product of two numbers whose bits run that way stands one place too low.
var foldBy = [2]uint64{power(8*block + 64 - 32), power(8*block - 32)}

// power is x to the n modulo the polynomial, times x to the 32 and one place up.
func power(n int) uint64 {
	r := uint32(1) << 31 // x to the 0: the highest bit is the lowest power
	for range n {
		low := r & 1
		r >>= 1
		if low != 0 {
			r ^= crc32.Castagnoli
		}
	}
	return uint64(r) << 1
}
