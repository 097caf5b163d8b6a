package crc32c

import "hash/crc32"

var table = crc32.MakeTable(crc32.Castagnoli)

// Checksum returns the CRC-32C of p.
func Checksum(p []byte) uint32 { return Update(0, p) }

// Update adds p to the bytes whose CRC-32C is crc.
func Update(crc uint32, p []byte) uint32 {
	if folds && len(p) >= foldFrom {
		n := len(p) / block
		crc = fold(crc, p[:n*block])
		p = p[n*block:]
	}
	return crc32.Update(crc, table, p)
}

const (
	block = 256 // bytes that are folded at once
	// foldFrom is from where on folding pays: below, the 256 bytes that it leaves to hash/crc32 weigh too much.
	foldFrom = 4 << 10
)
