package shardlog

import (
	"encoding/binary"
	"fmt"
)

// manifest makes a snapshot count (C11). It is the last thing that a compaction writes before it deletes.
type manifest struct {
	epoch uint64   // of the leader that made the snapshot
	next  uint64   // the first segment to apply after it
	id    nonce    // names the snapshot's folder
	size  uint64   // of all parts, as stored
	sums  []uint32 // of each part, as stored
}

func (m *manifest) encode() []byte {
	raw := binary.AppendUvarint(nil, m.size)
	raw = binary.AppendUvarint(raw, uint64(len(m.sums)))
	for _, s := range m.sums {
		raw = binary.LittleEndian.AppendUint32(raw, s)
	}
	b := block{kind: blockManifest, epoch: m.epoch, seq: m.next, id: m.id, raw: raw}
	return b.encode()
}

// maxParts is what a manifest has room for: 15 GiB of records in one shard.
const maxParts = (maxSegmentRaw - 2*binary.MaxVarintLen64) / 4

func decodeManifest(in []byte) (*manifest, error) {
	b, err := decodeBlock(blockManifest, in)
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	m := &manifest{epoch: b.epoch, next: b.seq, id: b.id}
	r := reader{rest: b.raw}
	m.size = r.uvarint()
	n := r.uvarint()
	// Bytes after the sums are a later version's.
	if r.err == nil && n > uint64(len(r.rest)/4) {
		r.fail("fewer checksums than parts")
	}
	if r.err != nil {
		return nil, fmt.Errorf("manifest: %w", r.err)
	}
	for i := range n {
		m.sums = append(m.sums, binary.LittleEndian.Uint32(r.rest[4*i:]))
	}
	return m, nil
}
