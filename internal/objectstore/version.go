package objectstore

import (
	"fmt"
	"math/rand/v2"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/crc32c"
)

// ChunkSize is the length of every chunk but the last, in bytes: long enough that a checksum, a frame and a system call
// per chunk cost nothing, short enough that a transfer can be resumed, spread over sources and passed on in the middle.
const ChunkSize = 1 << 20

// MaxSize bounds a version that comes from elsewhere, in bytes: its sums take 4 bytes per MiB, here 64 MiB.
const MaxSize = 16 << 40

// Version names one sequence of bytes (rule C22). The owner draws a nonce for each value that it adds. Two runs of one
// attempt therefore have different versions, even if their bytes are equal, and are never mixed.
type Version struct {
	ID      raysys.TaskID
	Attempt uint32
	Size    int64  // bytes
	Nonce   uint64 // drawn by the owner, never 0
}

func newNonce() uint64 { return max(1, rand.Uint64()) }

func (v Version) String() string {
	return fmt.Sprintf("%s (attempt %d, %d bytes, nonce %016x)", v.ID, v.Attempt, v.Size, v.Nonce)
}

// Check returns an error for a version from another node that is not valid.
func (v Version) Check() error {
	switch {
	case v.ID.IsZero():
		return fmt.Errorf("version without an object id: its sender is damaged")
	case v.Nonce == 0:
		return fmt.Errorf("version of %s without a nonce: its sender is damaged", v.ID)
	case v.Size < 0 || v.Size > MaxSize:
		return fmt.Errorf("version of %s: %d bytes are no size", v.ID, v.Size)
	}
	return nil
}

// Chunks returns how many chunks size bytes have.
func Chunks(size int64) int { return int((size + ChunkSize - 1) / ChunkSize) }

// Section returns where chunk i begins in the object, and its length.
func (v Version) Section(i int) (offset int64, length int) {
	offset = int64(i) * ChunkSize
	return offset, int(min(ChunkSize, v.Size-offset))
}

// Checksum returns the CRC-32C of b.
func Checksum(b []byte) uint32 { return crc32c.Checksum(b) }

// verify compares chunk i with its sum.
func (v Version) verify(i int, want uint32, b []byte) error {
	if got := Checksum(b); got != want {
		return &ChunkError{Version: v, Chunk: i, Want: want, Got: got}
	}
	return nil
}

// ChunkError says that bytes are not the chunk they should be.
type ChunkError struct {
	Version   Version
	Chunk     int
	Want, Got uint32 // CRC-32C
}

func (e *ChunkError) Error() string {
	return fmt.Sprintf("chunk %d of object %s has checksum %08x where %08x was announced: ask another source", e.Chunk, e.Version.ID, e.Got, e.Want)
}

func total(pieces [][]byte) (n int64) {
	for _, p := range pieces {
		n += int64(len(p))
	}
	return n
}

// section returns the pieces of the joint of pieces from offset on, length bytes long, without copying.
func section(pieces [][]byte, offset int64, length int) (out [][]byte) {
	for _, p := range pieces {
		if length == 0 {
			break
		}
		if offset >= int64(len(p)) {
			offset -= int64(len(p))
			continue
		}
		p = p[offset:]
		offset = 0
		n := min(length, len(p))
		out = append(out, p[:n:n])
		length -= n
	}
	return out
}
