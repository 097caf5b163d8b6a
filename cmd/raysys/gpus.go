package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/raysys/raysys/cmd/raysys/internal/supervise"
	"github.com/raysys/raysys/placement/devices"
	_ "github.com/raysys/raysys/placement/nvml" // for --gpus auto
)

// gpus are the devices that a node has, as its program hears of them.
type gpus struct {
	count int
	feed  *supervise.Feed // nil where there are none
	stop  func()
}

// watchGPUs finds the devices of --gpus and watches them until stop, also while the node drains. That there are none is said,
// and no failure: a node without GPUs is one. With --gpu, a mere number, none are looked for.
func watchGPUs(ctx context.Context, f *nodeFlags, out io.Writer) gpus {
	found := gpus{stop: func() {}}
	if f.gpu != "" || f.gpus == "none" {
		return found
	}
	say := func(line string) { fmt.Fprintln(out, line) }
	w, err := devices.Open(f.gpus, devices.Config{Host: f.name, Say: say})
	if err == nil && len(w.Inventory().Devices) == 0 {
		err = errors.New("this host has none, or " + devices.VisibleVariable + " names none")
	}
	if err != nil {
		say(fmt.Sprintf("no GPUs are offered: %v", err))
		return found
	}
	first := w.Inventory()
	found.count, found.feed = len(first.Devices), supervise.NewFeed(devices.FeedVariable)
	found.feed.Set(first.Line())
	ctx, found.stop = context.WithCancel(context.WithoutCancel(ctx))
	go w.Run(ctx, func(now devices.Inventory) { found.feed.Set(now.Line()) })
	what, d := "GPUs", first.Devices[0]
	if strings.HasPrefix(d.UUID, devices.FakeUUID) {
		what = "made-up GPUs"
	}
	say(fmt.Sprintf("%d %s, the first is %s", found.count, what, cmp.Or(d.Model, d.UUID)))
	return found
}
