package core

import (
	"fmt"
	"maps"
	"slices"
)

// Short says, a line each, of which resources less than want asks for is free. devices are those that would do for it now, and
// known those that would when idle.
func Short(want, free, total Resources, devices, known int) (list []string) {
	add := func(name string, want, free, total float64) {
		if want > free+1e-6 {
			list = append(list, fmt.Sprintf("%s: %g asked for, %.4g of %g free", name, want, max(free, 0), total))
		}
	}
	add("CPU", want.CPU, free.CPU, total.CPU)
	if asked := max(int(want.GPU), 1); want.GPU > 0 && devices < asked {
		which := Resources{GPU: want.GPU, GPUMemory: want.GPUMemory, GPUModel: want.GPUModel}
		list = append(list, fmt.Sprintf("%v: %d asked for, %d of %d such devices free", which, asked, devices, known))
	}
	if want.Memory > free.Memory {
		list = append(list, fmt.Sprintf("memory: %s asked for, %s of %s free", Bytes(want.Memory), Bytes(max(free.Memory, 0)), Bytes(total.Memory)))
	}
	for _, k := range slices.Sorted(maps.Keys(want.Custom)) {
		add(k, want.Custom[k], free.Custom[k], total.Custom[k])
	}
	return list
}
