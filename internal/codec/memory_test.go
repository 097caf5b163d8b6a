package codec

import (
	"bytes"
	"math"
	"testing"
	"unsafe"
)

// int and uint of 4 bytes travel as 8.
func TestNarrowInts(t *testing.T) {
	in := []int32{0, 1, -1, math.MinInt32, math.MaxInt32}
	data := appendSlowly(nil, unsafe.Pointer(&in[0]), len(in), 4, 8, true)
	if want := append(append(make([]byte, 8), 1, 0, 0, 0, 0, 0, 0, 0), bytes.Repeat([]byte{0xff}, 8)...); !bytes.HasPrefix(data, want) {
		t.Errorf("got %x, want the prefix %x", data, want)
	}
	out := make([]int32, len(in))
	if i := decodeSlowly(unsafe.Pointer(&out[0]), data, 4, 8, true); i >= 0 {
		t.Fatalf("number %d does not fit", i)
	}
	for i := range in {
		if in[i] != out[i] {
			t.Errorf("%d became %d", in[i], out[i])
		}
	}
	data[20] = 0 // the third number is now 2^64 - 2^32 - 1 - ...: beyond int32
	if i := decodeSlowly(unsafe.Pointer(&out[0]), data, 4, 8, true); i != 2 {
		t.Errorf("a number beyond int32 was noticed at %d, want 2", i)
	}
	unsigned := []uint32{math.MaxUint32}
	data = appendSlowly(nil, unsafe.Pointer(&unsigned[0]), 1, 4, 8, false)
	if want := []byte{255, 255, 255, 255, 0, 0, 0, 0}; !bytes.Equal(data, want) {
		t.Errorf("got %x, want %x", data, want)
	}
}

func TestCloneIsAligned(t *testing.T) {
	raw := make([]byte, 1+64)
	for _, size := range []int{1, 2, 4, 8} {
		for n := size; n <= 64; n += size {
			if p := clone(raw[1:1+n], size); uintptr(p)%uintptr(size) != 0 {
				t.Errorf("%d bytes for elements of %d lie at %p", n, size, p)
			}
		}
	}
}

func TestAllBools(t *testing.T) {
	for n := range 20 {
		b := bytes.Repeat([]byte{1}, n)
		if !allBools(b) {
			t.Errorf("%d ones: false", n)
		}
		for i := range b {
			b[i] = 2
			if allBools(b) {
				t.Errorf("a 2 at %d of %d passed", i, n)
			}
			b[i] = 0
		}
	}
}
