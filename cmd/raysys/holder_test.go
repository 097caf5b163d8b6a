//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
)

// gpuHolder is a grain that holds a GPU until that falls sick.
type gpuHolder struct{}

var (
	gpuHolders = grains.Define[gpuHolder]("script-holder", grains.Holds(raysys.GPU(1)))
	holdGPU    = grains.Method(gpuHolders, "hold", (*gpuHolder).Hold).With(raysys.Deadline(patience))
)

// Hold writes to the file the environment of a child process, and returns what it is told.
func (h *gpuHolder) Hold(ctx context.Context, file string) (string, error) {
	if err := os.WriteFile(file, []byte(strings.Join(raysys.DeviceEnv(ctx), "\n")+"\n"), 0o600); err != nil {
		return "", err
	}
	with, cancel := raysys.WithDevices(ctx)
	defer cancel()
	<-with.Done()
	told := context.Cause(with)
	own := errors.Is(told, raysys.ErrDeviceSick) && strings.Contains(told.Error(), raysys.Devices(ctx)[0])
	return fmt.Sprintf("its own device: %v: %v", own, told), nil
}

// holder is a user's program. As a driver it has the grain of a key write to a file, and prints what that was told.
func holder() {
	system.Main(func(ctx context.Context) error {
		said, err := holdGPU.Call(ctx, gpuHolders.Get(os.Args[1]), os.Args[2]).Get(ctx)
		if err == nil {
			fmt.Println(said)
		}
		return err
	})
}
