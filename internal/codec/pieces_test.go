package codec_test

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
)

// bulky can hold a large block in every place where there may be one.
type bulky struct {
	Bytes  []byte
	Floats []float32
	Ints   []int
	Flags  []bool
	Waves  []complex128
	Text   string
	Rows   [][]float64
	ByName map[string][]uint16
	Ptr    *[]int32
	Fixed  [3 * codec.Large]byte
	Shape  shape
}

// blob is a registered shape with a large block in it.
type blob struct{ Data []float32 }

func (blob) Area() float64 { return 1 }

var _ = raysys.Register[blob]("blob")

// pieces encodes v in pieces, and checks their joint against Append.
func pieces[T any](t tester, plan *codec.Plan, v *T) [][]byte {
	t.Helper()
	want, err := codec.Append(nil, v, nil)
	if err != nil {
		t.Fatalf("append: %v", err)
	}
	got, err := plan.Pieces(reflect.ValueOf(v).Elem(), nil)
	if err != nil {
		t.Fatalf("pieces: %v", err)
	}
	if !bytes.Equal(bytes.Join(got, nil), want) {
		t.Fatalf("%d pieces joined are not what Append writes", len(got))
	}
	var streamed []byte
	if err := plan.Stream(reflect.ValueOf(v).Elem(), nil, func(b []byte) error {
		streamed = append(streamed, b...)
		return nil
	}); err != nil || !bytes.Equal(streamed, want) {
		t.Fatalf("what was streamed is not what Append writes: %v", err)
	}
	for i, p := range got {
		if len(p) == 0 || i%2 == 1 && (len(p) < codec.Large || cap(p) != len(p)) {
			t.Fatalf("piece %d has %d bytes and room for %d", i, len(p), cap(p))
		}
	}
	return got
}

func drawBulky(t *rapid.T) *bulky {
	n := func(name string) int {
		return rapid.SampledFrom([]int{0, 1, 7, codec.Large/8 - 1, codec.Large / 8, codec.Large/4 + 1, codec.Large, codec.Large + 3}).Draw(t, name)
	}
	v := &bulky{
		Bytes: make([]byte, n("bytes")), Floats: make([]float32, n("floats")), Ints: make([]int, n("ints")),
		Flags: make([]bool, n("flags")), Waves: make([]complex128, n("waves")), Text: strings.Repeat("é", n("text")),
	}
	for i := range v.Bytes {
		v.Bytes[i] = byte(i * 7)
	}
	for i := range v.Floats {
		v.Floats[i] = float32(i) / 3
	}
	for i := range v.Ints {
		v.Ints[i] = -i
	}
	for i := range v.Flags {
		v.Flags[i] = i%3 == 0
	}
	if len(v.Waves) > 0 {
		v.Waves[len(v.Waves)-1] = complex(1, math.Inf(1))
	}
	for range rapid.IntRange(0, 3).Draw(t, "rows") {
		v.Rows = append(v.Rows, make([]float64, n("row")))
	}
	if rapid.Bool().Draw(t, "map") {
		v.ByName = map[string][]uint16{"b": make([]uint16, n("b")), "aa": make([]uint16, n("aa"))}
	}
	if rapid.Bool().Draw(t, "ptr") {
		p := make([]int32, n("behind"))
		v.Ptr = &p
	}
	if rapid.Bool().Draw(t, "shape") {
		v.Shape = blob{make([]float32, n("shape"))}
	}
	v.Fixed[17] = 3
	return v
}

func TestPiecesJoinToAppend(t *testing.T) {
	plan := planOf[bulky](t)
	rapid.Check(t, func(t *rapid.T) {
		v := drawBulky(t)
		joined := bytes.Join(pieces(t, plan, v), nil)
		shift := rapid.IntRange(0, 7).Draw(t, "shift")
		var fresh, shared bulky
		if err := plan.Decode(joined, reflect.ValueOf(&fresh).Elem(), nil); err != nil {
			t.Fatal(err)
		}
		src := append(make([]byte, shift, shift+len(joined)), joined...)[shift:]
		if err := plan.DecodeShared(src, reflect.ValueOf(&shared).Elem(), nil); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(&fresh, &shared) || !reflect.DeepEqual(&shared, v) {
			t.Fatal("DecodeShared and Decode differ, or neither is what was sent")
		}
	})
}

func TestPiecesOfWholeValues(t *testing.T) {
	floats := make([]float32, codec.Large)
	got := pieces(t, planOf[[]float32](t), &floats)
	if len(got) != 2 || unsafe.Pointer(&got[1][0]) != unsafe.Pointer(&floats[0]) {
		t.Errorf("a slice of numbers came in %d pieces, or was copied", len(got))
	}
	short := []byte("short")
	if got := pieces(t, planOf[[]byte](t), &short); len(got) != 1 {
		t.Errorf("%d pieces of what is short", len(got))
	}
	none := []byte(nil)
	pieces(t, planOf[[]byte](t), &none)
	v := sample()
	pieces(t, planOf[rich](t), &v)
	text := strings.Repeat("x", codec.Large)
	if got := pieces(t, planOf[string](t), &text); len(got) != 2 {
		t.Errorf("a long string came in %d pieces", len(got))
	}
	bad := strings.Repeat("\xff", codec.Large)
	pieces(t, planOf[string](t), &bad)
}

func TestPiecesWithReferences(t *testing.T) {
	type batch struct {
		Before raysys.Ref[int]
		Data   []float64
		Zafter raysys.Ref[int]
	}
	v := batch{raysys.Ready(1), make([]float64, codec.Large), raysys.Ready(2)}
	var want, got []*core.Future
	whole, err := codec.Append(nil, &v, &want)
	if err != nil {
		t.Fatal(err)
	}
	parts, err := planOf[batch](t).Pieces(reflect.ValueOf(&v).Elem(), &got)
	if err != nil || !bytes.Equal(bytes.Join(parts, nil), whole) || !reflect.DeepEqual(got, want) || len(got) != 2 {
		t.Fatalf("%d references, %v", len(got), err)
	}
	if _, err := planOf[batch](t).Pieces(reflect.ValueOf(&v).Elem(), nil); err == nil {
		t.Error("references went nowhere")
	}
}

func TestStreamGathersLittle(t *testing.T) {
	v := make(map[string][]string)
	for i := range 100 {
		row := make([]string, 1000)
		for j := range row {
			row[j] = strings.Repeat("x", (i+j)%50)
		}
		v[strings.Repeat("k", i+1)] = row
	}
	plan := planOf[map[string][]string](t)
	pieces(t, plan, &v)
	blocks, longest := 0, 0
	if err := plan.Stream(reflect.ValueOf(&v).Elem(), nil, func(b []byte) error {
		blocks++
		longest = max(longest, len(b))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if blocks < 4 || longest > 512<<10 {
		t.Errorf("%d blocks, the longest of %d bytes", blocks, longest)
	}
	full := errors.New("full")
	calls := 0
	if err := plan.Stream(reflect.ValueOf(&v).Elem(), nil, func(b []byte) error { calls++; return full }); err != full || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
}

func TestPiecesRefuseAsAppendDoes(t *testing.T) {
	v := []shape{blob{make([]float32, codec.Large)}, stranger{}}
	_, want := codec.Append(nil, &v, nil)
	_, got := planOf[[]shape](t).Pieces(reflect.ValueOf(&v).Elem(), nil)
	if want == nil || got == nil || got.Error() != want.Error() {
		t.Errorf("%v, not %v", got, want)
	}
}

// inside reports whether the slice lies in src.
func inside[E any](src []byte, s []E) bool {
	if len(s) == 0 || len(src) == 0 {
		return false
	}
	at, from := uintptr(unsafe.Pointer(&s[0])), uintptr(unsafe.Pointer(&src[0]))
	return at >= from && at < from+uintptr(len(src))
}

func TestDecodeSharedLooksIntoTheInput(t *testing.T) {
	v := []float64{1, 2, 3}
	data := encode(t, v)
	for shift := range 9 {
		// From the allocator 64 bytes come aligned to 64.
		src := append(make([]byte, shift, 64), data...)[shift:]
		var got []float64
		if err := planOf[[]float64](t).DecodeShared(src, reflect.ValueOf(&got).Elem(), nil); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(v, got); diff != "" {
			t.Fatal(diff)
		}
		if want := shift%8 == 0; inside(src, got) != want || cap(got) != len(got) {
			t.Errorf("shifted by %d: inside the input is %v, room for %d", shift, !want, cap(got))
		}
		// An append copies, so that the input stays as it is.
		before := bytes.Clone(src[:cap(src)])
		_ = append(got, 4)
		if !bytes.Equal(before, src[:cap(src)]) {
			t.Error("an append wrote into the input")
		}
	}
}

func TestDecodeSharedCopiesTheRest(t *testing.T) {
	v := small{1, "text", []float32{1, 2, 3}}
	w := rich{Bytes: []byte{1, 2, 3}, Bools: []bool{true}, Text: "text", Names: []string{"a"}, Floats: []float32{}}
	data := encode(t, v)
	var got small
	if err := planOf[small](t).DecodeShared(data, reflect.ValueOf(&got).Elem(), nil); err != nil {
		t.Fatal(err)
	}
	wide := encode(t, w)
	var full rich
	if err := planOf[rich](t).DecodeShared(wide, reflect.ValueOf(&full).Elem(), nil); err != nil {
		t.Fatal(err)
	}
	if !inside(wide, full.Bytes) || !inside(wide, full.Bools) {
		t.Error("bytes need no alignment, and were copied")
	}
	if full.Floats == nil {
		t.Error("an empty slice became nil")
	}
	clear(data)
	clear(wide)
	if got.B != "text" || full.Text != "text" || full.Names[0] != "a" {
		t.Error("a string looks into the input")
	}
	if err := planOf[small](t).DecodeShared([]byte{1, 5, 0xff}, reflect.ValueOf(&got).Elem(), nil); err == nil || got.B != "" {
		t.Errorf("%v, %v from bytes that are no value", got, err)
	}
}

func FuzzDecodeShared(f *testing.F) {
	plan := planOf[rich](f)
	for _, v := range []rich{{}, sample()} {
		data, err := codec.Append(nil, &v, nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, uint8(0))
		f.Add(data, uint8(3))
	}
	f.Fuzz(func(t *testing.T, data []byte, shift uint8) {
		src := append(make([]byte, shift%8, int(shift%8)+len(data)), data...)[shift%8:]
		var copied, shared rich
		want := plan.Decode(data, reflect.ValueOf(&copied).Elem(), nil)
		got := plan.DecodeShared(src, reflect.ValueOf(&shared).Elem(), nil)
		if (want == nil) != (got == nil) || want != nil && want.Error() != got.Error() {
			t.Fatalf("copying: %v; sharing: %v", want, got)
		}
		if diff := cmp.Diff(copied, shared, same); diff != "" {
			t.Fatal(diff)
		}
		if !bytes.Equal(src, data) {
			t.Fatal("decoding changed the input")
		}
		if want != nil {
			return
		}
		parts, err := plan.Pieces(reflect.ValueOf(&shared).Elem(), nil)
		if err != nil {
			t.Fatal(err)
		}
		once, err := plan.Append(nil, reflect.ValueOf(&copied).Elem(), nil)
		if err != nil || !bytes.Equal(bytes.Join(parts, nil), once) {
			t.Fatalf("pieces of what looks into the input are not what Append writes: %v", err)
		}
	})
}
