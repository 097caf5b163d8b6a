package shardlog

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"sync"

	"github.com/raysys/raysys/store"

	"github.com/klauspost/compress/zstd"
)

// A block is what one key of the store holds: a segment, a part of a snapshot or a manifest.
//
//	version 1 | kind 1 | packing 1 | epoch 8 | seq 8 | id 16 | first 8 | raw length 4 | checksum 4 | payload
//
// All numbers are little-endian. The checksum covers all bytes before it and the payload as it is stored.
const (
	blockVersion = 1
	blockHead    = 1 + 1 + 1 + 8 + 8 + 16 + 8 + 4 + 4

	// maxSegmentRaw is where a segment is full, and a part of a snapshot.
	maxSegmentRaw = 256 << 10

	// maxBlockRaw bounds a payload before packing, and with it what a reader may be made to allocate. It leaves room for
	// a part that holds one record of the largest segment, with what a snapshot adds to it.
	maxBlockRaw = maxSegmentRaw + 1<<10

	// packAbove is where packing begins: below it there is nothing to win.
	packAbove = 512
)

type blockKind byte

const (
	blockSegment  blockKind = 'L'
	blockPart     blockKind = 'P'
	blockManifest blockKind = 'M'
)

const (
	packRaw  = 0
	packZstd = 1
)

// nonce identifies the writer of a block: of two writers with the same segment number each finds its own.
type nonce [16]byte

// block is a decoded block.
type block struct {
	kind  blockKind
	epoch uint64
	seq   uint64 // segment: its number. Part: the part's number. Manifest: the first segment that the snapshot lacks.
	id    nonce  // segment: drawn for each. Part and manifest: drawn for the snapshot.
	first uint64 // segment: Seq of its first record's Version
	raw   []byte // records, or the manifest's fields
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// packer is shared by all shards: EncodeAll and DecodeAll keep no state between calls, but they do keep memory.
var packer = sync.OnceValues(func() (*zstd.Encoder, *zstd.Decoder) {
	e, err1 := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2), zstd.WithWindowSize(maxSegmentRaw), zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true))
	d, err2 := zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderMaxMemory(maxBlockRaw), zstd.WithDecoderLowmem(true))
	if err1 != nil || err2 != nil {
		panic(fmt.Sprint("store: options of zstd: ", err1, err2)) // constants above
	}
	return e, d
})

// Warm makes what all shards of the process share, which the first of them would make otherwise. A test that runs shards in
// a testing/synctest bubble calls it outside, or the next bubble would find channels of the first.
func Warm() {
	e, _ := packer()
	_ = e.EncodeAll([]byte{0}, nil)
}

// encode returns the block's bytes.
func (b *block) encode() []byte {
	out := make([]byte, blockHead, blockHead+len(b.raw))
	out[0], out[1], out[2] = blockVersion, byte(b.kind), packRaw
	binary.LittleEndian.PutUint64(out[3:], b.epoch)
	binary.LittleEndian.PutUint64(out[11:], b.seq)
	copy(out[19:], b.id[:])
	binary.LittleEndian.PutUint64(out[35:], b.first)
	binary.LittleEndian.PutUint32(out[43:], uint32(len(b.raw)))
	if len(b.raw) > packAbove {
		e, _ := packer()
		if packed := e.EncodeAll(b.raw, out); len(packed)-blockHead < len(b.raw)-len(b.raw)/16 {
			out = packed
			out[2] = packZstd
		}
	}
	if out[2] == packRaw {
		out = append(out[:blockHead], b.raw...)
	}
	binary.LittleEndian.PutUint32(out[47:], blockSum(out))
	return out
}

func blockSum(b []byte) uint32 {
	return crc32.Update(crc32.Update(0, castagnoli, b[:47]), castagnoli, b[blockHead:])
}

// decodeBlock reads a block of a kind. The block shares no memory with in.
func decodeBlock(kind blockKind, in []byte) (*block, error) {
	if len(in) < 2 {
		return nil, fmt.Errorf("%w: %d bytes are no block", store.ErrCorrupt, len(in))
	}
	if in[0] != blockVersion {
		return nil, fmt.Errorf("%w: block version %d, this program knows %d: run a newer one", store.ErrTooNew, in[0], blockVersion)
	}
	if len(in) < blockHead || blockKind(in[1]) != kind {
		return nil, fmt.Errorf("%w: %d bytes of kind %q, want %q", store.ErrCorrupt, len(in), in[1], kind)
	}
	if binary.LittleEndian.Uint32(in[47:]) != blockSum(in) {
		return nil, fmt.Errorf("%w: the checksum does not match", store.ErrCorrupt)
	}
	b := &block{
		kind:  kind,
		epoch: binary.LittleEndian.Uint64(in[3:]),
		seq:   binary.LittleEndian.Uint64(in[11:]),
		id:    nonce(in[19:35]),
		first: binary.LittleEndian.Uint64(in[35:]),
	}
	n := binary.LittleEndian.Uint32(in[43:])
	if n > maxBlockRaw {
		return nil, fmt.Errorf("%w: a payload of %d bytes, at most %d may be", store.ErrCorrupt, n, maxBlockRaw)
	}
	switch in[2] {
	case packRaw:
		b.raw = append([]byte(nil), in[blockHead:]...)
	case packZstd:
		_, d := packer()
		raw, err := d.DecodeAll(in[blockHead:], make([]byte, 0, n))
		if err != nil {
			return nil, fmt.Errorf("%w: unpack: %w", store.ErrCorrupt, err)
		}
		b.raw = raw
	default:
		return nil, fmt.Errorf("%w: packing %d", store.ErrTooNew, in[2])
	}
	if len(b.raw) != int(n) {
		return nil, fmt.Errorf("%w: a payload of %d bytes, its header says %d", store.ErrCorrupt, len(b.raw), n)
	}
	return b, nil
}
