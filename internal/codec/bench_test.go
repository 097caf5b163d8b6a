package codec_test

import (
	"reflect"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
)

const million = 1 << 20

// BenchmarkFloats has the raw limit, a copy of the same bytes into fresh memory and into old memory, beside the codec.
func BenchmarkFloats(b *testing.B) {
	v := make([]float32, million)
	for i := range v {
		v[i] = float32(i)
	}
	data, err := codec.Append(nil, &v, nil)
	if err != nil {
		b.Fatal(err)
	}
	run := func(name string, f func() error) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(4 * million)
			b.ReportAllocs()
			for b.Loop() {
				if err := f(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	reused := make([]byte, 0, len(data))
	run("limit_memcpy", func() error { reused = append(reused[:0], data...); return nil })
	run("limit_memcpy_fresh", func() error { sink = append([]byte(nil), data...); return nil })
	run("encode", func() error { sink, err = codec.Append(nil, &v, nil); return err })
	run("encode_reused", func() error { reused, err = codec.Append(reused[:0], &v, nil); return err })
	run("decode", func() error { return codec.Decode(data, &floats, nil) })
	nested := box[[]float32]{v}
	inside, err := codec.Append(nil, &nested, nil)
	if err != nil {
		b.Fatal(err)
	}
	run("encode_nested", func() error { sink, err = codec.Append(nil, &nested, nil); return err })
	run("decode_nested", func() error { return codec.Decode(inside, &nested, nil) })
}

var (
	sink   []byte
	floats []float32
)

func BenchmarkSmall(b *testing.B) {
	v := small{42, "a short text", make([]float32, 8)}
	data, err := codec.Append(nil, &v, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		buf := make([]byte, 0, len(data))
		for b.Loop() {
			if buf, err = codec.Append(buf[:0], &v, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := codec.Decode(data, &v, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkInt(b *testing.B) {
	v := 42
	buf := make([]byte, 0, 16)
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			buf, _ = codec.Append(buf[:0], &v, nil)
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := codec.Decode(buf, &v, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkPlanOf(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := codec.PlanOf(reflect.TypeFor[small]()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRefs(b *testing.B) {
	v := struct {
		A raysys.Ref[int]
		B []raysys.Ref[int]
	}{B: make([]raysys.Ref[int], 3)}
	plan := planOf[struct {
		A raysys.Ref[int]
		B []raysys.Ref[int]
	}](b)
	rv := reflect.ValueOf(&v).Elem()
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		plan.Refs(rv, func(core.RefValue) { n++ })
		if n != 4 {
			b.Fatal(n)
		}
	}
}
