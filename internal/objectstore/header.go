package objectstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/crc32c"
)

// A spill file is its header, padding, and the object's bytes. All numbers are little-endian.
//
//	magic 8 | format 4 | body offset 4 | cluster length 2 | label length 2 | cluster | label | id 16 | attempt 4 | size 8 | nonce 8 | the chunks' sums | CRC-32C of all before
//
// The label says what the file is kept for ([Object.Persist]); that of a spill file, which ends with its process, is
// empty. The header is written last, so that a file which was not finished has none. Its format number changes with its
// layout; files of another format are of no use, which costs a copy and never a wrong byte.
const (
	fileMagic   = "raysysOB"
	fileFormat  = 3
	fileAlign   = 4096 // of the body, so that it can be mapped and the numbers in it read in place
	filePrefix  = 20
	fileFixed   = filePrefix + 16 + 4 + 8 + 8 + 4
	maxCluster  = 1 << 10
	maxLabel    = 1 << 12
	maxFileHead = fileFixed + maxCluster + maxLabel + 4*(MaxSize/ChunkSize) + fileAlign
)

// errDamaged is in every error about a file whose bytes are not those that were written.
var errDamaged = errors.New("spill file damaged")

// bodyOffset is where the body of an object of size bytes begins.
func bodyOffset(cluster, label string, size int64) int64 {
	n := int64(fileFixed+len(cluster)+len(label)) + 4*int64(Chunks(size))
	return (n + fileAlign - 1) / fileAlign * fileAlign
}

// appendHeader appends the header without its padding.
func appendHeader(dst []byte, cluster, label string, v Version, sums []uint32) []byte {
	le := binary.LittleEndian
	start := len(dst)
	dst = append(dst, fileMagic...)
	dst = le.AppendUint32(dst, fileFormat)
	dst = le.AppendUint32(dst, uint32(bodyOffset(cluster, label, v.Size)))
	dst = le.AppendUint16(le.AppendUint16(dst, uint16(len(cluster))), uint16(len(label)))
	dst = append(append(dst, cluster...), label...)
	dst = le.AppendUint64(le.AppendUint64(dst, v.ID.Hi), v.ID.Lo)
	dst = le.AppendUint32(dst, v.Attempt)
	dst = le.AppendUint64(dst, uint64(v.Size))
	dst = le.AppendUint64(dst, v.Nonce)
	for _, sum := range sums {
		dst = le.AppendUint32(dst, sum)
	}
	return le.AppendUint32(dst, Checksum(dst[start:]))
}

// readHeader reads the header of a file of the given length, and checks all of it but the body.
func readHeader(r io.ReaderAt, length int64, cluster string) (v Version, label string, sums []uint32, body int64, err error) {
	le := binary.LittleEndian
	var prefix [filePrefix]byte
	if err := readFull(r, prefix[:], 0); err != nil {
		return v, "", nil, 0, err
	}
	body = int64(le.Uint32(prefix[12:]))
	names, labels := int64(le.Uint16(prefix[16:])), int64(le.Uint16(prefix[18:]))
	switch {
	case string(prefix[:8]) != fileMagic:
		return v, "", nil, 0, fmt.Errorf("%w: it does not begin as one", errDamaged)
	case le.Uint32(prefix[8:]) != fileFormat:
		return v, "", nil, 0, fmt.Errorf("%w: format %d is not read here, where it is %d", errDamaged, le.Uint32(prefix[8:]), fileFormat)
	case body > length || body > maxFileHead || body < fileFixed+names+labels:
		return v, "", nil, 0, fmt.Errorf("%w: a body at %d in a file of %d bytes", errDamaged, body, length)
	}
	head := make([]byte, body)
	if err := readFull(r, head, 0); err != nil {
		return v, "", nil, 0, err
	}
	at := head[filePrefix:]
	found := string(at[:names])
	label = string(at[names : names+labels])
	at = at[names+labels:]
	v.ID = raysys.TaskID{Hi: le.Uint64(at), Lo: le.Uint64(at[8:])}
	v.Attempt = le.Uint32(at[16:])
	v.Size = int64(le.Uint64(at[20:]))
	v.Nonce = le.Uint64(at[28:])
	at = at[36:]
	if err := v.Check(); err != nil {
		return v, "", nil, 0, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if 4*Chunks(v.Size)+4 > len(at) {
		return v, "", nil, 0, fmt.Errorf("%w: the sums of %d bytes do not fit its header", errDamaged, v.Size)
	}
	sums = make([]uint32, 0, Chunks(v.Size))
	for range cap(sums) {
		sums = append(sums, le.Uint32(at))
		at = at[4:]
	}
	end := len(head) - len(at)
	if got, want := Checksum(head[:end]), le.Uint32(at); got != want {
		return v, "", nil, 0, fmt.Errorf("%w: the header has checksum %08x, not %08x", errDamaged, got, want)
	}
	switch {
	case found != cluster:
		return v, "", nil, 0, fmt.Errorf("it belongs to cluster %q, not %q", found, cluster)
	case length != body+v.Size:
		return v, "", nil, 0, fmt.Errorf("%w: %d bytes long, not %d", errDamaged, length, body+v.Size)
	}
	return v, label, sums, body, nil
}

// readFull reads all of b; a file that ends before is damaged.
func readFull(r io.ReaderAt, b []byte, at int64) error {
	n, err := r.ReadAt(b, at)
	switch {
	case n == len(b):
		return nil
	case err == nil || errors.Is(err, io.EOF):
		return fmt.Errorf("%w: it ends %d bytes early", errDamaged, len(b)-n)
	default:
		return err
	}
}

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
