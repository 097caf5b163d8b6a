package devices_test

import (
	"context"
	"fmt"

	"github.com/raysys/raysys/placement/devices"
)

func ExampleOpen() {
	w, err := devices.Open("fake:dgx1", devices.Config{LookupEnv: noVariable}) // "auto" where there are GPUs
	if err != nil {
		fmt.Println(err)
		return
	}
	first := w.Inventory().Devices[0]
	fmt.Println(len(w.Inventory().Devices), first.Model, first.Memory>>30, "GiB")
	// Output: 8 Tesla V100-SXM2-16GB 16 GiB
}

func ExampleBest() {
	w, _ := devices.Open("fake:dgx1", devices.Config{LookupEnv: noVariable})
	fmt.Println(devices.Best(w.Inventory().Links, []int{1, 2, 4, 7}, 2)) // GPUs 0, 3, 5 and 6 are taken
	// Output: [1 2]
}

func ExampleNewFake() {
	f, _ := devices.NewFake("h100x2", "host")
	w, _ := devices.NewWatcher(f, devices.Config{LookupEnv: noVariable})
	ctx, cancel := context.WithCancel(context.Background())
	_ = f.Fault(1, "xid 79")
	w.Run(ctx, func(now devices.Inventory) {
		fmt.Println(now.Devices[1].Sick)
		cancel()
	})
	// Output: Xid 79: GPU has fallen off the bus
}
