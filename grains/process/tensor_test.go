package process_test

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/raysys/raysys/grains/process"
)

func there[T process.Element](t *testing.T, d process.DType, values ...T) {
	t.Helper()
	x := process.Of(values)
	if x.DType != d || !slices.Equal(x.Shape, []int{len(values)}) {
		t.Error(x)
	}
	back, err := process.Values[T](x)
	if err != nil || !slices.Equal(back, values) {
		t.Error(back, err)
	}
}

func TestTensorsKeepValues(t *testing.T) {
	there(t, process.Float32, 1.5, float32(math.Inf(-1)), 0)
	there(t, process.Float64, 1.5, -2.25)
	there(t, process.Int32, int32(math.MinInt32), 7)
	there(t, process.Int64, int64(math.MaxInt64), -1)
	there(t, process.Uint8, uint8(0), 255)
	there(t, process.Bool, true, false)
	there[float32](t, process.Float32)
	if x := process.Of(make([]uint8, 24), 2, 3, 4); x.String() != "uint8[2 3 4]" || x.IsZero() {
		t.Error(x)
	}
	if b := process.Of([]int32{258}).Data; !slices.Equal(b, []byte{2, 1, 0, 0}) {
		t.Errorf("the bytes %v are not little-endian", b)
	}
}

func TestTensorsThatDoNotFit(t *testing.T) {
	for _, x := range []process.Tensor{
		{},
		{DType: "float16", Shape: []int{1}, Data: make([]byte, 2)},
		{DType: process.Float32, Shape: []int{2}, Data: make([]byte, 4)},
		{DType: process.Float32, Shape: []int{-1}, Data: nil},
		{DType: process.Float32, Shape: []int{math.MaxInt, math.MaxInt}, Data: make([]byte, 4)},
		process.Of([]int32{1}),
	} {
		if v, err := process.Values[float32](x); !errors.Is(err, process.ErrTensor) {
			t.Errorf("%v gave %v, %v", x, v, err)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("three values have the shape 2x2")
		}
	}()
	process.Of([]float32{1, 2, 3}, 2, 2)
}

// TestTensorsAreNoJSON: one that is where it does not travel is told, and not lost.
func TestTensorsAreNoJSON(t *testing.T) {
	if b, err := json.Marshal([]process.Tensor{{}}); string(b) != "[null]" || err != nil {
		t.Errorf("%s %v", b, err)
	}
	if _, err := json.Marshal([]process.Tensor{process.Of([]bool{true})}); !errors.Is(err, process.ErrTensor) {
		t.Error(err)
	}
	var x process.Tensor
	for _, b := range []string{"[1, 2]", "1.5"} { // numpy.float32(1.5) and numpy.array(1.5) come so
		if err := json.Unmarshal([]byte(b), &x); !errors.Is(err, process.ErrTensor) || !strings.Contains(err.Error(), "reshape(1)") {
			t.Error(err)
		}
	}
}
