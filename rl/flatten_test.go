package rl_test

import (
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys/rl"
)

type meters float64

type robot struct {
	Speed  meters
	Lidar  []float32
	On     bool
	Wheels [2]struct {
		Turns int8
		Grip  [2]uint16
	}
	Cards []uint8
	Grid  [2][2]int
	deep  struct{ seen []bool }
}

func TestFlatten(t *testing.T) {
	r := robot{Speed: -1.5, Lidar: []float32{1, 2, 3}, On: true, Cards: []uint8{255}, Grid: [2][2]int{{4, 5}, {6, math.MaxInt16}}}
	r.Wheels[0].Turns, r.Wheels[1].Turns, r.Wheels[1].Grip = -7, 8, [2]uint16{9, 65535}
	r.deep.seen = []bool{false, true}
	flat, size := rl.Flatten(robot{Lidar: make([]float32, 3), Cards: make([]uint8, 1), deep: struct{ seen []bool }{make([]bool, 2)}})
	want := []float32{-1.5, 1, 2, 3, 1, -7, 0, 0, 8, 9, 65535, 255, 4, 5, 6, math.MaxInt16, 0, 1}
	if diff := cmp.Diff(want, flat(&r)); diff != "" || size != len(want) {
		t.Errorf("size %d (-want +got):\n%s", size, diff)
	}
	if n := testing.AllocsPerRun(100, func() { r.Speed++; flat(&r) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if got := flat(&r)[0]; got != float32(r.Speed) {
		t.Errorf("the speed is %v, want %v", got, r.Speed)
	}

	defer func() {
		err, _ := recover().(error)
		fault, ok := errors.AsType[*rl.EnvError](err)
		if !ok || fault.Error() != "environment: rl_test.robot.Lidar has 2 numbers, and in the example of rl.Flatten 3" {
			t.Error(err)
		}
	}()
	r.Lidar = r.Lidar[:2]
	flat(&r)
}

func TestFlattenAllKinds(t *testing.T) {
	type all struct {
		A int
		B int8
		C int16
		D int32
		E int64
		F uint
		G uint8
		H uint16
		I uint32
		J uint64
		K float32
		L float64
		M bool
		N [0]int
		O []float64
	}
	flat, size := rl.Flatten(all{})
	got := flat(&all{1, -2, 3, -4, 5, 6, 7, 8, 9, 10, 11.5, 12.5, true, [0]int{}, nil})
	if diff := cmp.Diff([]float32{1, -2, 3, -4, 5, 6, 7, 8, 9, 10, 11.5, 12.5, 1}, got); diff != "" || size != 13 {
		t.Errorf("size %d (-want +got):\n%s", size, diff)
	}
}

func TestFlattenRefuses(t *testing.T) {
	type named struct {
		N    int
		Name string
	}
	for want, flatten := range map[string]func(){
		"rl.Flatten: rl_test.named.Name is a string, which is neither a number nor made of numbers": func() { rl.Flatten(named{}) },
		"rl.Flatten: [1]*int[0] is a *int, which is neither a number nor made of numbers":           func() { rl.Flatten([1]*int{}) },
		"rl.Flatten: [][]int is a [][]int, which is neither a number nor made of numbers":           func() { rl.Flatten([][]int{}) },
	} {
		func() {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("got %v, want %v", got, want)
				}
			}()
			flatten()
		}()
	}
}

func BenchmarkFlatten(b *testing.B) {
	r := &robot{Lidar: make([]float32, 100)}
	flat, _ := rl.Flatten(*r)
	b.ReportAllocs()
	for b.Loop() {
		flat(r)
	}
}
