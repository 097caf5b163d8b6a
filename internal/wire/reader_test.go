package wire_test

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/wire"
)

func TestReaderRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint64().Draw(t, "n")
		s := rapid.String().Draw(t, "s")
		id := raysys.TaskID{Hi: rapid.Uint64().Draw(t, "hi"), Lo: rapid.Uint64().Draw(t, "lo")}
		b := wire.AppendID(wire.AppendBytes(wire.AppendUvarint(nil, n), s), id)
		r := wire.NewReader(b)
		if got := r.Uvarint(); got != n {
			t.Fatal(got, n)
		}
		if got := r.String(); got != s {
			t.Fatal(got, s)
		}
		if got := r.ID(); got != id {
			t.Fatal(got, id)
		}
		if r.Err() != nil || r.Len() != 0 {
			t.Fatal(r.Err(), r.Len())
		}
		// Every shorter frame is noticed, and nothing beyond it is read.
		cut := rapid.IntRange(0, len(b)-1).Draw(t, "cut")
		r = wire.NewReader(b[:cut:cut])
		r.Uvarint()
		_ = r.String()
		r.ID()
		if !errors.Is(r.Err(), wire.ErrCorrupt) {
			t.Fatalf("cut at %d of %d: %v", cut, len(b), r.Err())
		}
		if r.Uvarint() != 0 || r.String() != "" || r.Byte() != 0 || r.Sized() != nil || r.Count(1) != 0 {
			t.Fatal("a broken reader returned something")
		}
	})
}

// TestAppendNested: what is nested reads as AppendBytes has it, on both sides of each length of the length.
func TestAppendNested(t *testing.T) {
	for _, n := range []int{0, 1, 127, 128, 129, 1<<14 - 1, 1 << 14, 1 << 21} {
		inner := bytes.Repeat([]byte{7, 9, 11}, n/3+1)[:n]
		got := wire.AppendNested([]byte("head"), func(dst []byte) []byte { return append(dst, inner...) })
		if want := wire.AppendBytes([]byte("head"), inner); !bytes.Equal(got, want) {
			t.Errorf("%d bytes: nested and appended differ: %d and %d bytes", n, len(got), len(want))
		}
	}
}

func TestReaderBounds(t *testing.T) {
	big := wire.AppendUvarint(nil, math.MaxUint64)
	for name, read := range map[string]func(*wire.Reader){
		"bytes":  func(r *wire.Reader) { r.Bytes() },
		"count":  func(r *wire.Reader) { r.Count(1) },
		"uint32": func(r *wire.Reader) { r.Uint32() },
		"sized":  func(r *wire.Reader) { r.Sized() },
	} {
		frame := big
		if name == "sized" {
			frame = []byte{0xff, 0xff, 0xff, 0xff, 1, 2}
		}
		r := wire.NewReader(frame)
		read(&r)
		if r.Err() == nil {
			t.Errorf("%s takes a length beyond the frame", name)
		}
	}
	r := wire.NewReader([]byte{4, 1, 2, 3, 4})
	if n := r.Count(2); n != 0 || r.Err() == nil {
		t.Error("4 elements of 2 bytes in 4 bytes:", n)
	}
}
