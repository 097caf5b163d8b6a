// Package nvml asks the NVIDIA driver for the GPUs of this host, for package devices: which there are, MIG instances
// included, how they are linked, how much of them is in use, and whether they are well.
//
// It is imported for its effect, as a driver of database/sql is, and devices.Open does the rest:
//
//	import _ "github.com/raysys/raysys/placement/nvml"
//
//	w, err := devices.Open("auto", devices.Config{})
//
// A call goes down like this, and ends at the first step that fails:
//
//	devices.Watcher ── bounds each call in time ──► library, gpu
//	                                                   │ is the symbol there? (dlsym, once for each)
//	                                                   ▼
//	                                                go-nvml ── cgo ──► libnvidia-ml.so.1, of the driver
//
// Rules:
//
//  1. No function of the driver's library is called whose symbol was not found there: a missing one ends the process, and
//     drivers before R450 lack many. What a driver cannot say is unknown.
//
//  2. A result of go-nvml is never printed by itself: its text is a call into the library, too.
//
//  3. Nothing here bounds a call in time. That is the Watcher's part.
//
// It needs cgo and Linux. A program that is built without, or runs where no driver is, gets one sentence that says so, and it
// matches devices.ErrNoLibrary.
package nvml
