// Package net is a small neural net for reinforcement learning: a perceptron in float32, its gradient, and Adam.
//
//	x, rows of observations ─► [W, b] ─ tanh ─► [W, b] ─ tanh ─► [W, b] ─► outputs, a row each     Forward
//	                              │               │               │
//	grads ◄───────────────────────┴───────────────┴───────────────┴──────◄ the loss by the outputs  Backward
//
// Its nouns:
//
//   - An MLP is a layout: widths and an activation. It holds no numbers.
//   - Parameters are one []float32, and a gradient is another of the same length, so that the optimizer, the norm of a gradient, a checkpoint
//     and the wire each see one slice. The weights of a layer are a row for each input, then come its biases.
//   - A batch is a []float32 too: its rows one after the other. A single observation is a batch of one row.
//   - A Workspace holds the activations between Forward and Backward.
//
// Rules for the user:
//
//  1. MLP and parameters may be shared by goroutines that only read them. A Workspace is for one goroutine and one MLP. After its first batch
//     of a size nothing allocates.
//  2. What Forward returns, and the batch that it took, belong to the Workspace: read both, and change neither, until Backward or the next
//     Forward.
//  3. A slice of the wrong length panics: a net of another shape is an error of the program. MLP.String tells shapes apart. A checkpoint keeps it
//     beside the parameters and compares it before it gives them to the net.
//  4. The same calls give the same bits, whatever GOMAXPROCS is and wherever in memory the slices lie, and a row's outputs do not depend on the rows
//     beside it. This holds on processors of one kind with one build: arm64 rounds otherwise than amd64, and a program that hands another
//     implementation to blas32.Use gets what that does.
//
// Everything runs on the goroutine of the caller, so that as many nets learn at a time as the program has goroutines for them.
//
// A step of learning:
//
//	m := net.New(net.Tanh, 4, 64, 64, 2)
//	params := m.Init(rng, 0.01)
//	var (
//		w     net.Workspace
//		adam  net.Adam
//		grads = make([]float32, m.Size())
//	)
//	out := m.Forward(params, batch, &w)
//	// ... dOut[i] is the loss by out[i]
//	m.Backward(params, &w, dOut, grads)
//	net.ClipNorm(grads, 0.5)
//	adam.Step(params, grads, 3e-4)
//
// The heads (LogSoftmax, Huber, GaussianLogDensity and their like) are functions of one row.
//
// It has no convolutions, no recurrence, no GPU and no automatic differentiation.
package net
