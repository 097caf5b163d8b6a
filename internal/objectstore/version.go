package objectstore

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/crc32c"
)

// ChunkSize is the length of every chunk but the last, in bytes: long enough that a checksum, a frame and a system call
// per chunk cost nothing, short enough that a transfer can be resumed, spread over sources and passed on in the middle.
const ChunkSize = 1 << 20

// MaxSize bounds a manifest that comes from elsewhere, in bytes: its sums take 4 bytes per MiB, here 64 MiB.
const MaxSize = 16 << 40

// Version names one sequence of bytes (rule C22). Two attempts of one task may differ in their bytes; their versions then
// differ too, and are never mixed.
type Version struct {
	ID      raysys.TaskID
	Attempt uint32
	Size    int64  // bytes
	Sum     uint64 // the first 8 bytes of the SHA-256 of the chunks' sums and the size
}

func (v Version) String() string {
	return fmt.Sprintf("%s (attempt %d, %d bytes, sum %016x)", v.ID, v.Attempt, v.Size, v.Sum)
}

// check returns an error for a version from another node that is not valid.
func (v Version) check() error {
	switch {
	case v.ID.IsZero():
		return fmt.Errorf("manifest without an object id: its sender is damaged")
	case v.Size < 0 || v.Size > MaxSize:
		return fmt.Errorf("manifest of %s: %d bytes are no size", v.ID, v.Size)
	}
	return nil
}

// Manifest is a version with the CRC-32C of each of its chunks.
type Manifest struct {
	Version
	Chunks []uint32
}

// Checksum returns the CRC-32C of b.
func Checksum(b []byte) uint32 { return crc32c.Checksum(b) }

// Chunks returns how many chunks size bytes have.
func Chunks(size int64) int { return int((size + ChunkSize - 1) / ChunkSize) }

// Section returns where chunk i begins in the object, and its length.
func (m Manifest) Section(i int) (offset int64, length int) {
	offset = int64(i) * ChunkSize
	return offset, int(min(ChunkSize, m.Size-offset))
}

// sum computes what Version.Sum has to be.
func (m Manifest) sum() uint64 {
	h := sha256.New()
	var buf [8 << 10]byte
	at := 0
	for _, c := range m.Chunks {
		if at == len(buf) {
			h.Write(buf[:])
			at = 0
		}
		binary.LittleEndian.PutUint32(buf[at:], c)
		at += 4
	}
	h.Write(buf[:at])
	binary.LittleEndian.PutUint64(buf[:], uint64(m.Size))
	h.Write(buf[:8])
	return binary.BigEndian.Uint64(h.Sum(buf[:0]))
}

// Check returns an error for a manifest from another node that is not consistent.
func (m Manifest) Check() error {
	if err := m.Version.check(); err != nil {
		return err
	}
	switch {
	case len(m.Chunks) != Chunks(m.Size):
		return fmt.Errorf("manifest of %s: %d chunk sums for %d bytes, which are %d chunks", m.ID, len(m.Chunks), m.Size, Chunks(m.Size))
	case m.sum() != m.Sum:
		return fmt.Errorf("manifest of %s: the sum is %016x where the chunks give %016x", m.ID, m.Sum, m.sum())
	}
	return nil
}

// verify compares chunk i with its sum.
func (m Manifest) verify(i int, b []byte) error {
	return verify(m.Version, i, m.Chunks[i], b)
}

func verify(v Version, i int, want uint32, b []byte) error {
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
