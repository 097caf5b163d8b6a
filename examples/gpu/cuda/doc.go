// Package cuda computes on an NVIDIA GPU without cgo: it calls the driver's library, libcuda, and cuBLAS where that is
// installed, by github.com/ebitengine/purego.
//
//	Open ──► Driver ── Use(UUID) ──► Context ── Load(PTX) ──► Module ── Kernel ──► Launch
//	                                    └── Alloc ──► Memory ── Upload, Download
//
// Rules:
//
//  1. A Context belongs to a thread while it is used. Everything that is done with it, its memory and its kernels is done in
//     a function that its Do runs.
//
//  2. Launches are carried out in order. Download waits for them, and says what went wrong in one of them.
//
//  3. No function is called whose symbol was not found when the library was opened. A host without a driver is an error that
//     matches ErrNoDriver, one without a GPU ErrNoDevice. What a call returns is an *Error.
//
//  4. The arguments of Launch must be those of the kernel: neither this package nor the driver can check them.
//
// Tests have a library of their own, which runs PTX on a CPU: see package cudatest. The package was not run on a GPU.
package cuda
