package codec_test

import (
	"bytes"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
)

// fuzzDecode checks, for any bytes, that decoding ends in a value or a typed error, that an accepted value encodes
// again, and that its encoding is a fixed point. For canonical types, which have no fields to ignore and no methods of
// their own, the encoding is what was read. settle, unless nil, takes away what a type's own methods do not keep.
func fuzzDecode[T any](f *testing.F, canonical bool, refs []*core.Future, settle func(*T), seeds ...T) {
	f.Helper()
	for _, v := range seeds {
		var used []*core.Future
		data, err := codec.Append(nil, &v, &used)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(data[:len(data)/2])
	}
	f.Fuzz(func(t *testing.T, before []byte) {
		var v T
		data := bytes.Clone(before) // what the fuzzer owns must not be written to
		if err := codec.Decode(data, &v, refs); err != nil {
			if bad, ok := err.(*codec.DecodeError); !ok || bad.Type == nil || bad.Offset < 0 || bad.Offset > len(data) {
				t.Fatalf("%#v", err)
			}
			return
		}
		if !bytes.Equal(before, data) {
			t.Fatal("decoding changed the input")
		}
		if settle != nil {
			settle(&v)
		}
		var used []*core.Future
		once, err := codec.Append(nil, &v, &used)
		if err != nil {
			t.Fatalf("what was decoded does not encode: %v", err)
		}
		if canonical && !bytes.Equal(once, data) {
			t.Fatalf("%x was read as what is written %x", data, once)
		}
		for i := range data {
			data[i] ^= 0xff // what was decoded must not look into the input
		}
		var w T
		if err := codec.Decode(once, &w, used); err != nil {
			t.Fatalf("%x: %v", once, err)
		}
		used = nil
		twice, err := codec.Append(nil, &w, &used)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%x became %x, %v", once, twice, err)
		}
		plan := planOf[T](t)
		if plan.HasRefs() != (refs != nil) {
			t.Fatal("HasRefs")
		}
	})
}

func FuzzDecodeRich(f *testing.F) {
	fuzzDecode(f, false, nil, func(v *rich) { utc(&v.When) }, rich{}, sample())
}

// utc drops the zone: a negative offset that is no whole minute comes out of time.Time's own methods 256 seconds later
// (the instant stays).
func utc(t *time.Time) { *t = t.UTC() }

func FuzzDecodeShapes(f *testing.F) {
	fuzzDecode(f, false, nil, nil, sample().Shapes, []shape{group{[]shape{group{}, &label{"x"}}}})
}

func FuzzDecodeRefs(f *testing.F) {
	v, _ := newPipeline()
	var refs []*core.Future
	if _, err := codec.Append(nil, &v, &refs); err != nil {
		f.Fatal(err)
	}
	fuzzDecode(f, false, refs, nil, pipeline{}, v)
}

func FuzzDecodeFloats(f *testing.F) {
	fuzzDecode(f, true, nil, nil, nil, []float32{}, []float32{1, -2})
}

func FuzzDecodeTable(f *testing.F) {
	fuzzDecode(f, true, nil, nil, map[string]map[int16][]bool{"": nil, "\xff": {}, "aa": {-1: {true}, 300: nil, 2: {}}})
}

func FuzzDecodeLists(f *testing.F) {
	fuzzDecode(f, true, nil, nil, [][]*[2]string{nil, {}, {nil, {"", "\xfe"}}})
}

func FuzzDecodeTime(f *testing.F) {
	day := time.Date(2024, 2, 29, 12, 0, 0, 1, time.UTC)
	fuzzDecode(f, false, nil, utc, time.Time{}, day.In(time.FixedZone("z", -3600)), day.In(time.FixedZone("odd", -46)))
}

// FuzzRoundTrip builds values out of the fuzzer's choices.
func FuzzRoundTrip(f *testing.F) {
	f.Add(int64(-1), uint64(1), 1.5, "text", []byte("bytes"), true)
	f.Add(int64(math.MinInt64), uint64(math.MaxUint64), math.NaN(), "\xff", []byte{}, false)
	f.Fuzz(func(t *testing.T, i int64, u uint64, x float64, s string, b []byte, yes bool) {
		n := int(int32(i))
		v := rich{
			Bool: yes, Int: n, Int8: int8(i), Int64: i, Uint16: uint16(u), Float32: float32(x), Float64: x, Text: s, Bytes: b,
			Doubles: []float64{x, -x}, Ints: make([]int, len(b)), Bools: []bool{yes}, Names: []string{s, "", string(b)},
			ByName: map[string]small{s: {n, s, nil}, string(b): {}}, ByID: map[int16][]float64{int16(i): {x}},
			Flags: map[bool]*int{yes: &n}, Ptr: &small{B: s}, Shape: circle{x}, Shapes: []shape{&label{s}},
			When: time.Unix(i%(1<<40), int64(u%1e9)).UTC(),
		}
		if yes {
			v.Rows, v.Floats = [][]uint32{nil, {uint32(u)}}, []float32{math.Float32frombits(uint32(u))}
		}
		got := decode[rich](t, encode(t, v))
		if diff := cmp.Diff(v, got, same); diff != "" {
			t.Error(diff)
		}
	})
}
