// Package nodedevices has the accelerators of a node: which they are, which of them are sick, and who is told of that.
//
//	Config.Devices, GPU, CUDA_VISIBLE_DEVICES ─┐                            ┌─ Ledger     what work holds
//	                                           ├─▶ Take ─▶ Complete ─▶ list ┼─ Placement  what a view has of it
//	Open: raysys node, RAYSYS_GPUS ── Source ──┘                            └─ BestConnected
//	                                    │
//	                                    └─ Follow ─▶ Health ─▶ Watch: tasks and grains that hold a device
//
// A device that is sick is kept from new work before those that hold it are told.
package nodedevices
