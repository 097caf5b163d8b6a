package net_test

import (
	"fmt"
	"math/rand/v2"

	"github.com/raysys/raysys/rl/net"
)

// A net learns the exclusive or, as a classifier of two classes.
func Example() {
	x := []float32{0, 0, 0, 1, 1, 0, 1, 1} // four rows
	classes := []int{0, 1, 1, 0}

	m := net.New(net.Tanh, 2, 8, 2)
	params := m.Init(rand.New(rand.NewPCG(1, 0)), 1)
	grads, dOut := make([]float32, m.Size()), make([]float32, len(classes)*m.Out())
	var w net.Workspace
	var adam net.Adam
	for range 200 {
		logits := m.Forward(params, x, &w)
		for i, class := range classes {
			row := dOut[i*2 : i*2+2]
			net.Softmax(row, logits[i*2:i*2+2]) // the slope of -log p(class) is p - 1 for the class, p elsewhere
			row[class]--
		}
		m.Backward(params, &w, dOut, grads)
		net.ClipNorm(grads, 1)
		adam.Step(params, grads, 0.05)
	}

	fmt.Println(m, "has", m.Size(), "parameters")
	for i := range classes {
		row := x[i*2 : i*2+2] // a batch of one row
		fmt.Println(row, net.ArgMax(m.Forward(params, row, &w)))
	}
	// Output:
	// 2-8-2 tanh has 42 parameters
	// [0 0] 0
	// [0 1] 1
	// [1 0] 1
	// [1 1] 0
}

func ExampleHuber() {
	for _, err := range []float32{0.5, 10} {
		fmt.Println(net.Huber(err, 1))
	}
	// Output:
	// 0.125 0.5
	// 9.5 1
}

// A policy of continuous actions has a mean for each element of the action, and learns the logarithms of the standard deviations beside its net.
func ExampleGaussianLogDensity() {
	mean, logStd := []float32{0, 1}, []float32{0, -1}
	fmt.Printf("%.3f\n", net.GaussianLogDensity([]float32{0.5, 1}, mean, logStd))
	fmt.Printf("%.3f\n", net.GaussianEntropy(logStd))
	// Output:
	// -0.963
	// 1.838
}
