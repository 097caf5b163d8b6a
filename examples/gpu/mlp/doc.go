// Package mlp trains a network of full layers (a multilayer perceptron) to tell classes apart, by Adam, on a CPU or a GPU.
//
//	Spec ── Start ──► Snapshot ──► OnCPU, OnDevice ──► Model ── Step ──► loss
//	                     ▲                               │
//	                     └───────────── Snapshot ────────┘
//
// A Spec says all: the batches are made from its seed, so that no data travels, and step n takes batch n mod Batches. A Snapshot
// is all that a step leaves behind; a Model that begins with one goes on as the other would have. The CPU and the device run
// the same steps (network); they differ in who does the arithmetic (machine). Both do it in single precision.
package mlp

//go:generate go run ../nvrtc kernels.cu kernels.ptx
