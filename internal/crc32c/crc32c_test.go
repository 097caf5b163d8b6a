package crc32c_test

import (
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/raysys/raysys/internal/crc32c"
	"pgregory.net/rapid"
)

var table = crc32.MakeTable(crc32.Castagnoli)

func noise(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

// Every length about every border, at every place in a line of the cache, gives what hash/crc32 gives.
func TestUpdate(t *testing.T) {
	data := noise(40 << 10)
	lengths := []int{0, 1, 255, 4095, 4096, 4097, 4351, 4352, 4353, 8191, 8192, 8193, 32 << 10}
	for n := 4096; n < 4096+300; n++ {
		lengths = append(lengths, n)
	}
	for _, n := range lengths {
		for at := range 64 {
			p := data[at : at+n]
			for _, begin := range []uint32{0, 1, 0xffffffff, 0x12345678} {
				if got, want := crc32c.Update(begin, p), crc32.Update(begin, table, p); got != want {
					t.Fatalf("Update(%#x, %d bytes from %d on) = %#x, want %#x", begin, n, at, got, want)
				}
			}
		}
	}
}

// Bytes that come in pieces have the sum that they have together, and each bit of them counts.
func TestPieces(t *testing.T) {
	data := noise(256 << 10)
	rapid.Check(t, func(t *rapid.T) {
		p := data[:rapid.IntRange(0, len(data)).Draw(t, "length")]
		want := crc32.Checksum(p, table)
		sum, rest := uint32(0), p
		for len(rest) > 0 {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			sum, rest = crc32c.Update(sum, rest[:n]), rest[n:]
		}
		if sum != want || crc32c.Checksum(p) != want {
			t.Fatalf("%d bytes: %#x in pieces and %#x as one, want %#x", len(p), sum, crc32c.Checksum(p), want)
		}
		if len(p) == 0 {
			return
		}
		bit := rapid.IntRange(0, 8*len(p)-1).Draw(t, "bit")
		p[bit/8] ^= 1 << (bit % 8)
		if crc32c.Checksum(p) == want {
			t.Fatalf("bit %d of %d bytes does not count", bit, len(p))
		}
		p[bit/8] ^= 1 << (bit % 8)
	})
}

// The bytes stay as they are, and a sum allocates nothing.
func TestOnlyReads(t *testing.T) {
	data := noise(16 << 10)
	before := string(data)
	crc32c.Checksum(data[100 : 100+12<<10])
	if string(data) != before {
		t.Fatal("the bytes were changed")
	}
	if n := testing.AllocsPerRun(100, func() { crc32c.Checksum(data) }); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

// BenchmarkUpdate has hash/crc32 beside it: of bytes in the cache, and of more than a cache holds.
func BenchmarkUpdate(b *testing.B) {
	data := noise(256 << 20)
	for _, size := range []int{4 << 10, 64 << 10, 1 << 20, len(data)} {
		for _, way := range []struct {
			name string
			sum  func([]byte) uint32
		}{
			{"crc32c", crc32c.Checksum},
			{"hash", func(p []byte) uint32 { return crc32.Checksum(p, table) }},
		} {
			b.Run(fmt.Sprintf("%dKiB/%s", size>>10, way.name), func(b *testing.B) {
				b.SetBytes(int64(size))
				for b.Loop() {
					way.sum(data[:size])
				}
			})
		}
	}
}
