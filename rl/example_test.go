package rl_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/raysys/raysys/rl"
)

func ExampleLoadWeights() {
	file := filepath.Join(os.TempDir(), fmt.Sprintf("example-%d.weights", os.Getpid()))
	defer os.Remove(file)
	if err := (rl.Weights{Model: "lift 1-2", Steps: 2400, Params: []float32{0.5, -1}}).Save(file); err != nil { // those of a Run
		fmt.Println(err)
	}
	w, err := rl.LoadWeights(file)
	fmt.Println(w, err)
	// Output: {lift 1-2 2400 [0.5 -1]} <nil>
}

func ExampleFlatten() {
	type Seen struct {
		Floor int
		Lamps []bool
	}
	flat, size := rl.Flatten(Seen{Lamps: make([]bool, 2)})
	fmt.Println(size, flat(&Seen{Floor: 3, Lamps: []bool{true, false}}))
	// Output: 3 [3 1 0]
}
