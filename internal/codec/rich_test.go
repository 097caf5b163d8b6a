package codec_test

import (
	"math"
	"math/big"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	"github.com/raysys/raysys/internal/codec"
)

// maybe draws the zero value, which for pointers, slices and maps is nil, in one of four cases.
func maybe[T any](g *rapid.Generator[T]) *rapid.Generator[T] {
	var zero T
	return rapid.OneOf(rapid.Just(zero), g, g, g)
}

func sliceOf[T any](g *rapid.Generator[T]) *rapid.Generator[[]T] {
	return maybe(rapid.SliceOfN(g, 0, 5))
}

// anyString draws strings that are no UTF-8 too.
func anyString() *rapid.Generator[string] {
	return rapid.OneOf(rapid.StringN(0, 30, -1), rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 5), func(b []byte) string { return string(b) }))
}

// anyFloat draws all bit patterns: NaNs with payloads, both zeros, subnormal numbers.
func anyFloat() *rapid.Generator[float64] {
	return rapid.OneOf(rapid.Map(rapid.Uint64(), math.Float64frombits), rapid.Float64())
}

func anyFloat32() *rapid.Generator[float32] { return rapid.Map(rapid.Uint32(), math.Float32frombits) }

func anySmall() *rapid.Generator[small] {
	return rapid.Custom(func(t *rapid.T) small {
		return small{rapid.Int().Draw(t, "A"), anyString().Draw(t, "B"), sliceOf(anyFloat32()).Draw(t, "C")}
	})
}

func anyShape(depth int) *rapid.Generator[shape] {
	return rapid.Custom(func(t *rapid.T) shape {
		switch rapid.IntRange(0, 4-min(depth, 1)).Draw(t, "shape") {
		case 0:
			return nil
		case 1:
			return circle{anyFloat().Draw(t, "R")}
		case 2:
			return (*label)(nil)
		case 3:
			return &label{anyString().Draw(t, "Text")}
		default:
			return group{sliceOf(anyShape(depth+1)).Draw(t, "Members")}
		}
	})
}

func pointerTo[T any](g *rapid.Generator[T]) *rapid.Generator[*T] {
	return maybe(rapid.Map(g, func(v T) *T { return &v }))
}

func anyRich() *rapid.Generator[rich] {
	return rapid.Custom(func(t *rapid.T) rich {
		v := rich{
			Bool: rapid.Bool().Draw(t, "Bool"), Int: rapid.Int().Draw(t, "Int"), Int8: rapid.Int8().Draw(t, "Int8"),
			Int64: rapid.Int64().Draw(t, "Int64"), Uint: rapid.Uint().Draw(t, "Uint"), Uint16: rapid.Uint16().Draw(t, "Uint16"),
			Float32: anyFloat32().Draw(t, "Float32"), Float64: anyFloat().Draw(t, "Float64"),
			Complex: complex(rapid.Float64().Draw(t, "re"), rapid.Float64().Draw(t, "im")),
			Text:    anyString().Draw(t, "Text"),
			Bytes:   sliceOf(rapid.Byte()).Draw(t, "Bytes"), Floats: sliceOf(anyFloat32()).Draw(t, "Floats"),
			Doubles: sliceOf(anyFloat()).Draw(t, "Doubles"), Ints: sliceOf(rapid.Int()).Draw(t, "Ints"),
			Levels: sliceOf(rapid.Map(rapid.Int8(), func(i int8) level { return level(i) })).Draw(t, "Levels"),
			Bools:  sliceOf(rapid.Bool()).Draw(t, "Bools"),
			Phases: sliceOf(rapid.Map(rapid.Float32(), func(f float32) complex64 { return complex(f, -f) })).Draw(t, "Phases"),
			Names:  sliceOf(anyString()).Draw(t, "Names"), Rows: sliceOf(sliceOf(rapid.Uint32())).Draw(t, "Rows"),
			ByName:  maybe(rapid.MapOfN(anyString(), anySmall(), 0, 5)).Draw(t, "ByName"),
			ByID:    maybe(rapid.MapOfN(rapid.Int16(), sliceOf(anyFloat()), 0, 5)).Draw(t, "ByID"),
			Flags:   maybe(rapid.MapOfN(rapid.Bool(), pointerTo(rapid.Int()), 0, 2)).Draw(t, "Flags"),
			Ptr:     pointerTo(anySmall()).Draw(t, "Ptr"),
			PtrPtr:  pointerTo(pointerTo(rapid.Int())).Draw(t, "PtrPtr"),
			PtrList: pointerTo(sliceOf(anyString())).Draw(t, "PtrList"),
			When:    time.Unix(rapid.Int64Range(-1<<40, 1<<40).Draw(t, "When"), 5).UTC(),
			Big:     maybe(rapid.Map(rapid.Int64(), big.NewInt)).Draw(t, "Big"),
			Shape:   anyShape(0).Draw(t, "Shape"), Shapes: sliceOf(anyShape(0)).Draw(t, "Shapes"),
		}
		for i := range v.Grid {
			for j := range v.Grid[i] {
				v.Grid[i][j] = rapid.Int16().Draw(t, "Grid")
			}
		}
		v.Pair[1] = anyString().Draw(t, "Pair")
		if rapid.Bool().Draw(t, "more") {
			v.Addr = netip.AddrFrom4([4]byte{rapid.Byte().Draw(t, "Addr"), 1, 2, 3})
			v.Proto = durationpb.New(time.Duration(rapid.Int64().Draw(t, "Proto")))
		}
		return v
	})
}

func TestRoundTripLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { roundTrip(t, anyRich().Draw(t, "value")) })
}

// The reflect form writes the same bytes, and reads them, with and without an address to the value.
func TestReflectForm(t *testing.T) {
	plan := planOf[rich](t)
	rapid.Check(t, func(t *rapid.T) {
		v := anyRich().Draw(t, "value")
		want := encode(t, v)
		for _, rv := range []reflect.Value{reflect.ValueOf(v), reflect.ValueOf(&v).Elem()} {
			got, err := plan.Append(nil, rv, nil)
			if err != nil || string(got) != string(want) {
				t.Fatalf("got %x, %v; want %x", got, err, want)
			}
		}
		out := reflect.New(plan.Type())
		if err := plan.Decode(want, out.Elem(), nil); err != nil {
			t.Fatal(err)
		}
		if again := encode(t, *out.Interface().(*rich)); string(again) != string(want) {
			t.Fatalf("got %x, want %x", again, want)
		}
	})
}

// Numbers take another way where memory is not in wire order; the bytes are the same.
func TestByteOrderDoesNotShow(t *testing.T) {
	v := sample()
	want := encode(t, v)
	floats := encode(t, []float64{1, math.Inf(-1)})
	codec.AsBigEndian(t)
	if got := encode(t, v); string(got) != string(want) {
		t.Errorf("got %x, want %x", got, want)
	}
	if got := encode(t, []float64{1, math.Inf(-1)}); string(got) != string(floats) {
		t.Errorf("got %x, want %x", got, floats)
	}
	roundTrip(t, v)
	roundTrip(t, []complex64{1 + 2i})
}
