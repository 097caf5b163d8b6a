package raysys

import (
	"context"
	"fmt"
	"strings"

	"github.com/raysys/raysys/internal/core"
)

// Device is one accelerator of a node, as system.Config.Devices lists them.
type Device struct {
	// UUID is what CUDA_VISIBLE_DEVICES takes for it. Where a node knows no more than a number of devices, it is their names in that
	// variable, which system.FromEnv reads, and without it 0, 1 and so on.
	UUID   string  `json:"uuid"`
	Model  string  `json:"model,omitempty"`
	Memory int64   `json:"memory,omitempty"` // bytes; 0 where that is not known
	Share  float64 `json:"share,omitempty"`  // of it that the node may use, below 1; 0 is all of it
}

// Devices are the UUIDs of the devices that the running task, or the activation whose turn it is, holds by GPU. A share
// names its device too. It is empty where the work asked for none.
func Devices(ctx context.Context) []string {
	t, _, err := core.TurnOf(ctx)
	if err != nil {
		return nil
	}
	return t.Devices()
}

// WithDevices returns a context that ends when a device of the running work is sick, with a cause (context.Cause) that matches
// ErrDeviceSick and says which device, and of what. A sick device gets no new work; what has it keeps it, and decides by
// this context: it may finish, or return the cause, and RetryIf has it run again elsewhere. For work that holds no device it ends with
// ctx. Call cancel when the work with the devices is done.
//
//	ctx, cancel := raysys.WithDevices(ctx)
//	defer cancel()
//	for ctx.Err() == nil { ... }
func WithDevices(ctx context.Context) (context.Context, context.CancelFunc) {
	with, cancel := context.WithCancelCause(ctx)
	end := func() { cancel(nil) }
	t, _, err := core.TurnOf(ctx)
	if err != nil {
		return with, end
	}
	held := t.Devices()
	w, ok := t.Runtime().(core.DeviceWatcher)
	if !ok || len(held) == 0 {
		return with, end
	}
	stop := w.WatchDevices(held, func(uuid, cause string) { cancel(fmt.Errorf("%w: %s: %s", ErrDeviceSick, uuid, cause)) })
	context.AfterFunc(with, stop)
	return with, end
}

// DeviceEnv is the environment that keeps a child process to the devices of the running work: append it to exec.Cmd.Env. Work
// that holds no device gets one that shows none. A process sees one instance of a divided device (MIG), so that of several the
// environment names the first: a child for each takes its own from Devices.
//
//	cmd.Env = append(os.Environ(), raysys.DeviceEnv(ctx)...)
func DeviceEnv(ctx context.Context) []string {
	list := Devices(ctx)
	if len(list) > 1 && strings.HasPrefix(list[0], "MIG-") {
		list = list[:1]
	}
	return []string{"CUDA_VISIBLE_DEVICES=" + strings.Join(list, ",")}
}
