package shardlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/raysys/raysys/store"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys/internal/golden"
)

// examples are one of each block, as this version writes them. Names say the format's version: files of older ones
// stay in testdata for ever.
func examples() map[string]*block {
	id := nonce{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	small := appendPut(nil, "g/counter/alice", []byte("node-1"))
	small = appendDelete(small, "g/counter/bob")
	small = append(appendFrame(small, 77, 3), "new"...)
	small = appendHandover(small, "node-1")
	var large []byte
	for i := range 200 {
		large = appendPut(large, "s/counter/alice/count", []byte{byte(i), 0, 0, 0})
	}
	entries := appendEntry(nil, "g/counter/alice", Record{[]byte("node-1"), Version{17, 3}})
	entries = appendEntry(entries, "empty", Record{nil, Version{1 << 40, 1 << 20}})
	entries = appendKept(entries, Version{17, 5}, kept{77, "new"})
	entries = append(appendFrame(entries, 99, 4), "beta"...)
	return map[string]*block{
		"v1-segment-empty.hex":  {kind: blockSegment, epoch: 17, seq: 1, id: id, first: 1},
		"v1-segment-small.hex":  {kind: blockSegment, epoch: 17, seq: 2, id: id, first: 1, raw: small},
		"v1-segment-packed.hex": {kind: blockSegment, epoch: 1 << 40, seq: 1 << 33, id: id, first: 1 << 21, raw: large},
		"v1-part.hex":           {kind: blockPart, epoch: 17, seq: 3, id: id, raw: entries},
	}
}

// example is a manifest, which has fields of its own.
func exampleManifest() *manifest {
	return &manifest{epoch: 17, next: 900, id: nonce{0: 9}, size: 123456, sums: []uint32{1, 0xffffffff, 7}}
}

// What an earlier build wrote is read as it was meant. The packed one may be encoded differently by another version of
// the compressor; what it holds is the same.
func TestEncodingsOfThisVersion(t *testing.T) {
	for name, want := range examples() {
		got, err := decodeBlock(want.kind, golden.Hex(t, name, want.encode()))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if d := cmp.Diff(want, got, cmp.AllowUnexported(block{}), cmp.Transformer("bytes", func(b []byte) string { return string(b) })); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
		if again := want.encode(); !strings.Contains(name, "packed") && !bytes.Equal(again, golden.Hex(t, name, again)) {
			t.Errorf("%s: this build writes it differently", name)
		}
	}
	want := exampleManifest()
	got, err := decodeManifest(golden.Hex(t, "v1-manifest.hex", want.encode()))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(manifest{})); d != "" {
		t.Errorf("manifest (-want +got):\n%s", d)
	}
}

func TestDamagedBlocks(t *testing.T) {
	for name, b := range examples() {
		good := b.encode()
		for i := range good {
			for _, bad := range [][]byte{good[:i], append(append([]byte{}, good[:i]...), append([]byte{good[i] ^ 0x10}, good[i+1:]...)...)} {
				if _, err := decodeBlock(b.kind, bad); !errors.Is(err, store.ErrCorrupt) && !errors.Is(err, store.ErrTooNew) {
					t.Fatalf("%s, damaged at byte %d: %v", name, i, err)
				}
			}
		}
		if _, err := decodeBlock(blockManifest, good); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%s read as a manifest: %v", name, err)
		}
		newer := append([]byte{}, good...)
		newer[0] = blockVersion + 1
		if _, err := decodeBlock(b.kind, newer); !errors.Is(err, store.ErrTooNew) {
			t.Errorf("%s of a newer version: %v, want ErrTooNew", name, err)
		}
	}
	// Later versions may add to a manifest.
	m := exampleManifest()
	b, err := decodeBlock(blockManifest, m.encode())
	if err != nil {
		t.Fatal(err)
	}
	b.raw = append(b.raw, "more"...)
	if got, err := decodeManifest(b.encode()); err != nil || len(got.sums) != len(m.sums) {
		t.Errorf("a manifest with more fields: %+v, %v", got, err)
	}
}

func seeds(f *testing.F) {
	for _, b := range examples() {
		f.Add(b.encode())
		f.Add(b.raw)
	}
	f.Add(exampleManifest().encode())
}

// What decodes, encodes and decodes to the same; nothing panics, and nothing large comes of little.
func FuzzBlock(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) >= blockHead { // or nothing would ever get past the checksum
			in = append([]byte{}, in...)
			binary.LittleEndian.PutUint32(in[47:], blockSum(in))
		}
		for _, kind := range []blockKind{blockSegment, blockPart, blockManifest} {
			b, err := decodeBlock(kind, in)
			if err != nil {
				if !errors.Is(err, store.ErrCorrupt) && !errors.Is(err, store.ErrTooNew) {
					t.Fatalf("untyped error: %v", err)
				}
				continue
			}
			if len(b.raw) > maxBlockRaw {
				t.Fatalf("%d bytes came of %d", len(b.raw), len(in))
			}
			again, err := decodeBlock(kind, b.encode())
			if err != nil || !bytes.Equal(again.raw, b.raw) || again.seq != b.seq || again.id != b.id {
				t.Fatalf("encoded again: %+v, %v", again, err)
			}
		}
		if m, err := decodeManifest(in); err == nil {
			if again, err := decodeManifest(m.encode()); err != nil || !cmp.Equal(m, again, cmp.AllowUnexported(manifest{})) {
				t.Fatalf("manifest encoded again: %+v, %v", again, err)
			}
		}
	})
}

// Records of any bytes: a machine takes them or refuses them, and its snapshot is the machine.
func FuzzRecords(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) > maxSegmentRaw {
			return
		}
		for _, m := range []func(*machine) error{
			func(m *machine) error {
				return m.apply(&block{kind: blockSegment, epoch: 3, seq: 1, first: 9, raw: raw})
			},
			func(m *machine) error { return m.load(&block{kind: blockPart, raw: raw}) },
		} {
			first := newMachine()
			if err := m(first); err != nil {
				if !errors.Is(err, store.ErrCorrupt) {
					t.Fatalf("untyped error: %v", err)
				}
				continue
			}
			second, c := newMachine(), cursor{}
			for raw := first.part(&c); raw != nil; raw = first.part(&c) {
				if err := second.load(&block{kind: blockPart, raw: raw}); err != nil {
					t.Fatal(err)
				}
			}
			if d := cmp.Diff(recordsOf(first), recordsOf(second)); d != "" || first.bytes != second.bytes {
				t.Fatalf("snapshot of %d bytes is of %d (-want +got):\n%s", first.bytes, second.bytes, d)
			}
		}
	})
}

func FuzzLeader(f *testing.F) {
	f.Add("leaders/07", []byte(`{"node":"a","nonce":"b"}`))
	f.Add("leaders/7", []byte(`{`))
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		l, err := ParseLeader(store.Pair{Key: key, Value: value})
		if err == nil && LeaderKey(l.Shard) != key {
			t.Fatalf("%q parsed as shard %d", key, l.Shard)
		}
		if err != nil && !errors.Is(err, store.ErrCorrupt) {
			t.Fatalf("untyped error: %v", err)
		}
	})
}
