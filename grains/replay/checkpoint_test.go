package replay

import (
	"context"
	"errors"
	"hash/crc32"
	"slices"
	"testing"
)

// stored is the encoding of two tables that share a chunk.
func stored(t testing.TB) []byte {
	a := &chunk{data: []byte("onetwothree"), ends: []uint32{3, 6, 11}}
	b := &chunk{data: []byte("x"), ends: []uint32{0, 1}}
	data, err := encode(context.Background(), 77, [][]item{
		{{key: 1, chunk: a, first: 0, last: 2, times: 3, priority: 0.5}, {key: 2, chunk: b, first: 1, last: 2, priority: 2}},
		{{key: 3, chunk: a, first: 1, last: 3, priority: 1}},
	}, []uint64{10, 20, 30, 40})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestEncoding: what is stored is read as it was.
func TestEncoding(t *testing.T) {
	l, err := decode(stored(t), 77, 2)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(l.counts, []uint64{10, 20, 30, 40}) || len(l.items[0]) != 2 || len(l.items[1]) != 1 || l.items[0][0].chunk != l.items[1][0].chunk {
		t.Errorf("%+v", l)
	}
	it := l.items[1][0]
	if got := string(it.chunk.data[it.chunk.start(1):it.chunk.ends[2]]); got != "twothree" || l.items[0][0].times != 3 || l.items[0][0].priority != 0.5 {
		t.Errorf("%q, %+v", got, l.items[0][0])
	}
}

// TestTorn: a checkpoint that was cut anywhere, or of which a byte has changed, is refused, and so is one of other tables.
func TestTorn(t *testing.T) {
	data := stored(t)
	for i := range data {
		if _, err := decode(data[:i], 77, 2); !errors.Is(err, ErrCheckpoint) {
			t.Fatalf("cut at %d of %d: %v", i, len(data), err)
		}
		changed := slices.Clone(data)
		changed[i] ^= 0x40
		if _, err := decode(changed, 77, 2); !errors.Is(err, ErrCheckpoint) {
			t.Fatalf("byte %d of %d changed: %v", i, len(data), err)
		}
	}
	for _, other := range []struct {
		print  uint64
		tables int
	}{{78, 2}, {77, 1}, {77, 3}} {
		if _, err := decode(data, other.print, other.tables); !errors.Is(err, ErrCheckpoint) {
			t.Errorf("%+v: %v", other, err)
		}
	}
}

// FuzzDecode: whatever the bytes, a checkpoint is read or refused. The sum at the end is made right, so that what is before it is looked at.
func FuzzDecode(f *testing.F) {
	data := stored(f)
	f.Add(data[len(magic)+8 : len(data)-4])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, body []byte) {
		b := append(slices.Clone(data[:len(magic)+8]), body...)
		sum := crc32.Checksum(b, castagnoli)
		b = append(b, byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24))
		l, err := decode(b, 77, 2)
		if err == nil {
			for _, list := range l.items {
				for _, it := range list {
					_ = it.chunk.data[it.chunk.start(int(it.first)):it.chunk.ends[it.last-1]]
				}
			}
		} else if !errors.Is(err, ErrCheckpoint) {
			t.Fatal(err)
		}
	})
}
