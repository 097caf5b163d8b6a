package raysys

import "github.com/raysys/raysys/internal/core"

// Resources are what work asks for and what a node has. CPU and GPU are counts, in thousandths: 0.25, and not 0.0015;
// Memory is in bytes; Custom are counts under names of your own ("licence").
type Resources struct {
	CPU       float64            `json:"cpu"`
	GPU       float64            `json:"gpu"`
	GPUMemory int64              `json:"gpu_memory,omitempty"` // of each device, in bytes
	GPUModel  string             `json:"gpu_model,omitempty"`  // of each device; "" is any
	Memory    int64              `json:"memory"`
	Custom    map[string]float64 `json:"custom,omitempty"`
}

// Validate reports the first amount that cannot be meant: negative, NaN, infinite, beyond a billion, or 8 PiB of memory, or below
// 1/1000. Options, groups and system.Config also refuse what is no multiple of 1/1000.
func (r Resources) Validate() error { return core.Resources(r).Validate() }

// String lists what is not zero.
func (r Resources) String() string { return core.Resources(r).String() }
