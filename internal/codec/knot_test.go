package codec_test

import (
	"errors"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/raysys/raysys/internal/codec"
)

type (
	tree struct {
		Name string
		Kids []tree
		By   map[string]*tree
		Next *tree
	}
	both struct{ Prev, Next *both }
	even struct{ Odd *odd }
	odd  struct {
		N    int
		Even *even
	}
	point struct {
		X, Y int
		At   [2]string
	}
)

// Values of types that contain themselves travel like others.
func TestRecursiveTypes(t *testing.T) {
	roundTrip(t, tree{
		Name: "a", Kids: []tree{{Name: "b"}, {Kids: []tree{}}}, By: map[string]*tree{"c": {Name: "c"}, "nil": nil},
		Next: &tree{Next: &tree{Name: "last"}},
	})
	roundTrip(t, &linked{1, &linked{2, nil}})
	roundTrip(t, loop{nil, {}, {nil, {{}}}})
	roundTrip(t, []even{{&odd{1, &even{&odd{2, nil}}}}})
	roundTrip(t, odd{7, &even{}})
	long := &linked{}
	for i := range 5000 {
		long = &linked{i, long}
	}
	if again := decode[*linked](t, encode(t, long)); again.Value != 4999 || again.Next.Next.Value != 4997 {
		t.Error("a list of 5000 did not arrive")
	}
	for typ, schema := range map[reflect.Type]string{
		reflect.TypeFor[linked]():    "{Next:*^0;Value:int}",
		reflect.TypeFor[[]even]():    "[]{Odd:*{N:int;Even:*^1}}",
		reflect.TypeFor[[]loop]():    "[][]^1",
		reflect.TypeFor[anyHolder](): "{Any:interface(any)}",
	} {
		p, err := codec.PlanOf(typ)
		if err != nil {
			t.Fatal(err)
		}
		if p.Schema() != schema {
			t.Errorf("%v has the schema %s, want %s", typ, p.Schema(), schema)
		}
	}
}

// A value that is part of itself ends in an error, on both ways, and its size in a number.
func TestCyclicValues(t *testing.T) {
	a := &both{}
	a.Next, a.Prev = &both{Prev: a}, &both{Next: a}
	l := &linked{}
	l.Next = l
	m := tree{By: map[string]*tree{}}
	m.By["self"] = &m
	for _, v := range []any{a, l, &m} {
		p, err := codec.PlanOf(reflect.TypeOf(v))
		if err != nil {
			t.Fatal(err)
		}
		var bad *codec.EncodeError
		if _, err := p.Append(nil, reflect.ValueOf(v), nil); !errors.As(err, &bad) || !strings.Contains(err.Error(), "cycle") || len(err.Error()) > 1000 {
			t.Errorf("%T: %v, want a short EncodeError about the cycle", v, err)
		}
		if p.Size(reflect.ValueOf(v)) == 0 {
			t.Errorf("%T: no size", v)
		}
	}
	wide := &both{} // 2^60 ways
	for range 60 {
		wide = &both{wide, wide}
	}
	p, _ := codec.PlanOf(reflect.TypeOf(wide))
	p.Size(reflect.ValueOf(wide))
	data := append([]byte{1, 5}, []byte(strings.Repeat("\xa1\x64Next", 200_000))...)
	var d *codec.DecodeError
	if err := codec.Decode(data, new(*linked), nil); !errors.As(err, &d) || !strings.Contains(err.Error(), "deep") || len(err.Error()) > 1000 {
		t.Errorf("200,000 levels: %v", err)
	}
}

func TestStructMapKeys(t *testing.T) {
	roundTrip(t, map[point]string{{1, 2, [2]string{"a", "b"}}: "x", {}: "zero", {X: -1}: "y"})
	roundTrip(t, map[[2]int]int{{1, 2}: 3, {2, 1}: 4})
	// An older version of the key has a field less: two keys would become one.
	data := encode(t, map[point]int{{X: 1}: 1, {X: 2}: 2})
	var m map[struct{ Y int }]int
	if err := codec.Decode(data, &m, nil); err == nil || !strings.Contains(err.Error(), "keys") {
		t.Errorf("two keys became one: %v, %v", m, err)
	}
}

// The basic types stand in any without a registration.
func TestBasicTypesInAny(t *testing.T) {
	for _, v := range []any{
		nil, true, "text", []byte("bytes"), 1, int8(-1), int16(2), int32(3), int64(math.MinInt64), uint(1), uint8(2), uint16(3), uint32(4),
		uint64(math.MaxUint64), float32(1.5), 2.5,
		[]any{1, "two", nil, []any{}},
		map[string]any{"a": 1, "b": map[string]any{"c": []byte{}}},
	} {
		roundTrip(t, anyHolder{v})
		roundTrip(t, map[string]any{"k": v})
	}
	var bad *codec.EncodeError
	if _, err := codec.Append(nil, &anyHolder{point{}}, nil); !errors.As(err, &bad) || !strings.Contains(err.Error(), "raysys.Register[codec_test.point]") {
		t.Errorf("a type that nobody registered: %v", err)
	}
	self := []any{nil}
	self[0] = self
	if _, err := codec.Append(nil, &self, nil); !errors.As(err, &bad) {
		t.Errorf("a cycle through any: %v", err)
	}
}

// What comes as one byte and is large in memory is counted before memory is taken.
func TestEmptyStructsTakeNoMemory(t *testing.T) {
	type large struct {
		N    int
		Rest [4096]byte `raysys:"-"`
	}
	empty := func(n int) []byte { // a list of n structs that have lost their fields
		head := []byte{1, 5, 0x9a, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}
		return append(head, []byte(strings.Repeat("\xa0", n))...)
	}
	for name, target := range map[string]any{
		"list": new([]large), "pointers": new([]*large), "nested": new([][1]large),
	} {
		data := empty(1 << 20)
		if name == "nested" {
			data = append(data[:7:7], []byte(strings.Repeat("\x81\xa0", 1<<20))...)
		}
		v := reflect.ValueOf(target).Elem()
		p, err := codec.PlanOf(v.Type())
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err = p.Decode(data, v, nil)
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; err == nil || got > 64*uint64(len(data))+(64<<20) {
			t.Errorf("%s: %d bytes of input took %d MiB: %v", name, len(data), got>>20, err)
		}
	}
	var few []large
	roomy := append([]byte{1, 5, 0x99, 1, 0}, []byte(strings.Repeat("\xa0", 256))...)
	if err := codec.Decode(roomy, &few, nil); err != nil || len(few) != 256 {
		t.Errorf("a few structs of another version: %v", err)
	}
}
