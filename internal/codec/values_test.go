package codec_test

import (
	"fmt"
	"math"
	"math/big"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
)

// shape is the registered interface of the tests.
type shape interface{ Area() float64 }

type circle struct{ R float64 }

func (c circle) Area() float64 { return math.Pi * c.R * c.R }

type label struct{ Text string }

func (*label) Area() float64 { return 0 }

// group can nest, through the interface, as deep as it likes.
type group struct{ Members []shape }

func (g group) Area() (sum float64) {
	for _, m := range g.Members {
		sum += m.Area()
	}
	return sum
}

// bearer holds a reference, which an interface must not.
type bearer struct{ R raysys.Ref[int] }

func (bearer) Area() float64 { return 0 }

// broken cannot travel at all.
type broken struct{ C chan int }

func (broken) Area() float64 { return 0 }

// stranger is not registered.
type stranger struct{}

func (stranger) Area() float64 { return 0 }

var (
	_ = raysys.Register[shape]("codec_test.shape")
	_ = raysys.Register[circle]("circle")
	_ = raysys.Register[*label]("label")
	_ = raysys.Register[group]("group")
	_ = raysys.Register[bearer]("bearer")
	_ = raysys.Register[broken]("broken")
)

type level int8

type small struct {
	A int
	B string
	C []float32
}

// rich has a field of every shape.
type rich struct {
	Bool    bool
	Int     int
	Int8    int8
	Int64   int64
	Uint    uint
	Uint16  uint16
	Float32 float32
	Float64 float64
	Complex complex128
	Text    string
	Bytes   []byte
	Floats  []float32
	Doubles []float64
	Ints    []int
	Levels  []level
	Bools   []bool
	Phases  []complex64
	Grid    [2][3]int16
	Pair    [2]string
	Names   []string
	Rows    [][]uint32
	ByName  map[string]small
	ByID    map[int16][]float64
	Flags   map[bool]*int
	Ptr     *small
	PtrPtr  **int
	PtrList *[]string
	When    time.Time
	Addr    netip.Addr
	Big     *big.Int
	Proto   *durationpb.Duration
	Shape   shape
	Shapes  []shape
	Nothing struct{}
	skipped int `raysys:"-"`
}

// same compares as the wire promises: floats by their bits, nil apart from empty.
var same = cmp.Options{
	cmp.Comparer(func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }),
	cmp.Comparer(func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }),
	cmp.Comparer(func(a, b complex64) bool { return fmt.Sprint(a) == fmt.Sprint(b) }),
	cmp.Comparer(func(a, b complex128) bool { return fmt.Sprint(a) == fmt.Sprint(b) }),
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmp.Comparer(func(a, b *big.Int) bool { return a == b || a != nil && b != nil && a.Cmp(b) == 0 }),
	protocmp.Transform(),
	cmp.AllowUnexported(rich{}),
}

func sample() rich {
	n := 7
	pn := &n
	list := []string(nil)
	return rich{
		Bool: true, Int: math.MinInt, Int8: -128, Int64: math.MaxInt64, Uint: math.MaxUint, Uint16: math.MaxUint16,
		Float32: float32(math.Copysign(0, -1)), Float64: math.Inf(-1), Complex: complex(1, -2), Text: "héllo",
		Bytes: []byte{0, 255}, Floats: []float32{1.5, -2, float32(math.Inf(1))}, Doubles: []float64{}, Ints: []int{-1, math.MaxInt},
		Levels: []level{-1, 2}, Bools: []bool{true, false, true}, Phases: []complex64{complex(3, 4)},
		Grid: [2][3]int16{{1, 2, 3}, {-4, -5, -6}}, Pair: [2]string{"", "\xff\xfe"}, Names: []string{}, Rows: [][]uint32{nil, {}, {9}},
		ByName: map[string]small{"b": {1, "x", nil}, "aa": {A: 2, C: []float32{1}}, "": {}},
		ByID:   map[int16][]float64{-1: {1}, 300: nil, 2: {}}, Flags: map[bool]*int{true: pn, false: nil},
		Ptr: &small{A: 1}, PtrPtr: &pn, PtrList: &list,
		When: time.Date(2024, 2, 29, 12, 0, 0, 1, time.UTC), Addr: netip.MustParseAddr("fe80::1%eth0"),
		Big: new(big.Int).Lsh(big.NewInt(-3), 200), Proto: durationpb.New(90 * time.Second),
		Shape: circle{2}, Shapes: []shape{nil, &label{"l"}, (*label)(nil), group{[]shape{circle{1}, group{}}}},
	}
}

// tester is what testing.T, testing.F and rapid.T share.
type tester interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// encode fails the test on error, and checks what every encoding must hold: it leaves what was in dst alone, and it
// repeats.
func encode[T any](t tester, v T) []byte {
	t.Helper()
	b, err := codec.Append([]byte("pre"), &v, nil)
	if err != nil {
		t.Fatalf("encode %T: %v", v, err)
	}
	again, err := codec.Append(nil, &v, nil)
	if err != nil || string(b) != "pre"+string(again) {
		t.Fatalf("encode %T twice: %x, then %x, %v", v, b[3:], again, err)
	}
	return again
}

func decode[T any](t tester, data []byte) T {
	t.Helper()
	var v T
	if err := codec.Decode(data, &v, nil); err != nil {
		t.Fatalf("decode %T from %x: %v", v, data, err)
	}
	return v
}

func roundTrip[T any](t tester, v T) {
	t.Helper()
	data := encode(t, v)
	got := decode[T](t, data)
	for i := range data { // the value must not look into the input
		data[i] ^= 0xff
	}
	if diff := cmp.Diff(v, got, same); diff != "" {
		t.Errorf("%T came back changed (-sent +got):\n%s", v, diff)
	}
}

func TestRoundTrip(t *testing.T) {
	roundTrip(t, rich{})
	roundTrip(t, sample())
	roundTrip(t, []rich{sample(), {}})
	roundTrip(t, []float32(nil))
	roundTrip(t, []float32{})
	roundTrip(t, []byte(nil))
	roundTrip(t, []byte{})
	roundTrip(t, []bool{true, false})
	roundTrip(t, [3]uint64{1, 2, math.MaxUint64})
	roundTrip(t, "")
	roundTrip(t, "\xc3\x28")
	roundTrip(t, struct{}{})
	roundTrip(t, (*time.Time)(nil))
	roundTrip(t, time.Now().Round(0).UTC())
	roundTrip(t, stamped{time.Unix(1, 0).UTC(), "kept"})
	roundTrip(t, wrapped{time.Unix(2, 0).UTC()})
	roundTrip(t, flavour{3})
	roundTrip(t, []flavour{{1}, {0}})
	roundTrip(t, tone(3))
	roundTrip(t, []tone{3, 4})
	roundTrip(t, map[tone]recording{3: {1}, 4: {}, 5: nil})
	roundTrip(t, net.IP{1, 2, 3, 4})
	roundTrip(t, net.IPv4(1, 2, 3, 4))
	roundTrip(t, []net.IP{nil, {}, net.IPv6loopback})
	roundTrip(t, durationpb.New(time.Second))
	roundTrip(t, (*durationpb.Duration)(nil))
	roundTrip(t, map[uint64]bool{0: true, math.MaxUint64: false})
	roundTrip(t, map[int]int(nil))
	roundTrip(t, shape(nil))
	roundTrip(t, shape(circle{1}))
	roundTrip(t, []struct{}{{}, {}})
	roundTrip(t, [0]string{})
}

// TestBigFloats: precision, mode, sign of zero and infinities are part of the value.
func TestBigFloats(t *testing.T) {
	third := new(big.Float).SetPrec(256).Quo(big.NewFloat(1), big.NewFloat(3))
	for _, want := range []*big.Float{third, new(big.Float).SetMode(big.ToZero).SetInt64(7), big.NewFloat(math.Copysign(0, -1)), big.NewFloat(math.Inf(-1)), {}} {
		b, err := codec.Append(nil, want, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got big.Float
		if err := codec.Decode(b, &got, nil); err != nil {
			t.Fatal(err)
		}
		if got.Cmp(want) != 0 || got.Prec() != want.Prec() || got.Mode() != want.Mode() || got.Signbit() != want.Signbit() {
			t.Errorf("%s with %d bits came back as %s with %d", want, want.Prec(), &got, got.Prec())
		}
	}
}

func TestFloatBits(t *testing.T) {
	quiet, signalling := uint64(0x7ff8_0000_dead_beef), uint64(0x7ff0_0000_0000_0001)
	for _, bits := range []uint64{quiet, signalling, 1 << 63, 1, math.Float64bits(math.MaxFloat64)} {
		slice := encode(t, []float64{math.Float64frombits(bits)})
		if got := math.Float64bits(decode[[]float64](t, slice)[0]); got != bits {
			t.Errorf("in a slice %x became %x", bits, got)
		}
		alone := encode(t, math.Float64frombits(bits))
		if got := math.Float64bits(decode[float64](t, alone)); got != bits {
			t.Errorf("alone %x became %x", bits, got)
		}
	}
	if got := decode[float32](t, encode(t, float32(math.NaN()))); got == got {
		t.Errorf("NaN became %v", got)
	}
}

func TestProtoValue(t *testing.T) {
	in := durationpb.New(time.Minute)
	out := decode[*durationpb.Duration](t, encode(t, in))
	if !proto.Equal(in, out) {
		t.Errorf("%v became %v", in, out)
	}
}
