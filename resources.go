package raysys

import "github.com/raysys/raysys/internal/core"

// Resources are what work asks for and what a node has. CPU and GPU are counts and may be fractions down to 1/1000;
// Memory is in bytes; Custom are counts under names of your own ("licence").
type Resources struct {
	CPU       float64            `json:"cpu"`
	GPU       float64            `json:"gpu"`
	GPUMemory int64              `json:"gpu_memory,omitempty"` // of each device, in bytes
	GPUModel  string             `json:"gpu_model,omitempty"`  // of each device; "" is any
	Memory    int64              `json:"memory"`
	Custom    map[string]float64 `json:"custom,omitempty"`
}

// Validate reports the first amount that cannot be meant: negative, NaN, infinite, beyond a billion, or 8 PiB of memory, or finer
// than 1/1000.
func (r Resources) Validate() error { return core.Resources(r).Validate() }

// String lists what is not zero.
func (r Resources) String() string { return core.Resources(r).String() }
