package objectstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/raysys/raysys"
)

// A spill file is its header, padding, and the object's bytes. All numbers are little-endian.
//
//	magic 8 | format 4 | body offset 4 | cluster length 2 | cluster | id 16 | attempt 4 | size 8 | sum 8 | chunks 4 | their sums | CRC-32C of all before
//
// The header is written last, so that a file which was not finished has none. Its format number changes with its layout;
// files of another format are of no use, which costs a copy and never a wrong byte.
const (
	fileMagic   = "raysysOB"
	fileFormat  = 1
	fileAlign   = 4096 // of the body, so that it can be mapped and the numbers in it read in place
	filePrefix  = 18
	fileFixed   = filePrefix + 16 + 4 + 8 + 8 + 4 + 4
	maxCluster  = 1 << 10
	maxFileHead = fileFixed + maxCluster + 4*(MaxSize/ChunkSize) + fileAlign
)

// errDamaged is in every error about a file whose bytes are not those that were written.
var errDamaged = errors.New("spill file damaged")

// bodyOffset is where the body of an object of size bytes begins.
func bodyOffset(cluster string, size int64) int64 {
	n := int64(fileFixed+len(cluster)) + 4*int64(Chunks(size))
	return (n + fileAlign - 1) / fileAlign * fileAlign
}

// appendHeader appends the header without its padding.
func appendHeader(dst []byte, cluster string, m Manifest) []byte {
	le := binary.LittleEndian
	start := len(dst)
	dst = append(dst, fileMagic...)
	dst = le.AppendUint32(dst, fileFormat)
	dst = le.AppendUint32(dst, uint32(bodyOffset(cluster, m.Size)))
	dst = append(le.AppendUint16(dst, uint16(len(cluster))), cluster...)
	dst = le.AppendUint64(le.AppendUint64(dst, m.ID.Hi), m.ID.Lo)
	dst = le.AppendUint32(dst, m.Attempt)
	dst = le.AppendUint64(dst, uint64(m.Size))
	dst = le.AppendUint64(dst, m.Sum)
	dst = le.AppendUint32(dst, uint32(len(m.Chunks)))
	for _, c := range m.Chunks {
		dst = le.AppendUint32(dst, c)
	}
	return le.AppendUint32(dst, Checksum(dst[start:]))
}

// readHeader reads the header of a file of the given length, and checks all of it but the body.
func readHeader(r io.ReaderAt, length int64, cluster string) (m Manifest, body int64, err error) {
	le := binary.LittleEndian
	var prefix [filePrefix]byte
	if err := readFull(r, prefix[:], 0); err != nil {
		return m, 0, err
	}
	body = int64(le.Uint32(prefix[12:]))
	names := int64(le.Uint16(prefix[16:]))
	switch {
	case string(prefix[:8]) != fileMagic:
		return m, 0, fmt.Errorf("%w: it does not begin as one", errDamaged)
	case le.Uint32(prefix[8:]) != fileFormat:
		return m, 0, fmt.Errorf("%w: format %d is not read here, where it is %d", errDamaged, le.Uint32(prefix[8:]), fileFormat)
	case body > length || body > maxFileHead || body < fileFixed+names:
		return m, 0, fmt.Errorf("%w: a body at %d in a file of %d bytes", errDamaged, body, length)
	}
	head := make([]byte, body)
	if err := readFull(r, head, 0); err != nil {
		return m, 0, err
	}
	at := head[filePrefix:]
	found := string(at[:names])
	at = at[names:]
	m.ID = raysys.TaskID{Hi: le.Uint64(at), Lo: le.Uint64(at[8:])}
	m.Attempt = le.Uint32(at[16:])
	m.Size = int64(le.Uint64(at[20:]))
	m.Sum = le.Uint64(at[28:])
	count := int64(le.Uint32(at[36:]))
	at = at[40:]
	if count*4+4 > int64(len(at)) {
		return m, 0, fmt.Errorf("%w: %d chunk sums do not fit its header", errDamaged, count)
	}
	end := len(head) - len(at) + int(count)*4
	if got, want := Checksum(head[:end]), le.Uint32(head[end:]); got != want {
		return m, 0, fmt.Errorf("%w: the header has checksum %08x, not %08x", errDamaged, got, want)
	}
	m.Chunks = make([]uint32, count)
	for i := range m.Chunks {
		m.Chunks[i] = le.Uint32(at[4*i:])
	}
	if err := m.Check(); err != nil {
		return m, 0, fmt.Errorf("%w: %w", errDamaged, err)
	}
	switch {
	case found != cluster:
		return m, 0, fmt.Errorf("%w: it belongs to cluster %q, not %q", errDamaged, found, cluster)
	case length != body+m.Size:
		return m, 0, fmt.Errorf("%w: %d bytes long, not %d", errDamaged, length, body+m.Size)
	}
	return m, body, nil
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
