// Package devices knows the accelerators of one host: which there are, how they are linked, and whether they are well. It is
// pure Go; what asks the NVIDIA driver is package nvml beside it, which needs cgo.
//
// A Device is what work may be given: a GPU, or a MIG instance of one. An Inventory is all of them with their links. A
// Source has an inventory and says when it changes; a Library is what a Watcher, which is a Source, asks.
//
//	NVIDIA driver ── placement/nvml ──┐
//	                                  ├─ Library ──► Watcher ──► Inventory, again at each change
//	fake:dgx1 ─────────────── Fake ───┘    ▲             │
//	                          each call bounded in time  └── a pipe ──► Feed, the same in the program
//
// Rules:
//
//  1. A call that hangs costs one goroutine, however often its GPU is asked again: that GPU does not answer until the call
//     returns, and is sick for so long. Other GPUs are asked on.
//
//  2. Uncorrectable ECC errors since the NVIDIA driver was loaded, a lost GPU, a call that fails and Xids of the hardware
//     make a device sick: see HardwareXid. An Xid stays until the watcher is made anew; the others end with their cause.
//     Xids of programs change nothing.
//
//  3. CUDA_VISIBLE_DEVICES of the process that watches limits what there is, by CUDA's rules: see Visible.
//
// raysys node watches, and gives its program the pipe. A program on its own links the driver's library in and opens it:
//
//	import _ "github.com/raysys/raysys/placement/nvml" // registers itself, as a driver of database/sql does
//
//	w, err := devices.Open("auto", devices.Config{})
//	go w.Run(ctx, func(now devices.Inventory) { ... })
//
// The import is what decides whether a program has cgo and a driver's library in it, so it is the program's: no package that
// a program without GPUs imports has it.
//
// The package gives no device to anybody and does not know what is free: that is the ledger's matter.
package devices
