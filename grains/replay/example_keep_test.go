package replay_test

import (
	"context"
	"fmt"
	"os"

	"github.com/raysys/raysys/grains/replay"
	"github.com/raysys/raysys/system"
)

var once = replay.Define[int]("example.once", replay.Config{Tables: []replay.Table{
	{Name: "queue", Sampler: replay.FIFO, MaxTimesSampled: 1, MaxSize: 100, Limiter: replay.Queue(3)},
}})

// Items are pending until a Flush without an error, whatever came of the calls before it.
func ExampleWriter_Pending() {
	_ = system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		w, err := once.Get("run-7").Writer(replay.NStep("queue", 1))
		if err != nil {
			return err
		}
		over, cancel := context.WithCancel(ctx)
		cancel()
		for i := range 3 {
			if err := w.Append(ctx, i); err != nil {
				return err
			}
		}
		fmt.Println(w.Flush(over) != nil, w.Pending())
		fmt.Println(w.Flush(ctx), w.Pending())
		return nil
	})
	// Output:
	// true 3
	// <nil> 0
}

// The Sampler gives back at its end what it had asked for ahead.
func ExampleSampler_Close() {
	_ = system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		buffer := once.Get("run-8")
		if err := buffer.Insert(ctx, "queue", []int{1, 2, 3}, nil); err != nil {
			return err
		}
		s := buffer.Sampler("queue", 1, 2) // two calls ahead
		if _, err := s.Next(ctx); err != nil {
			return err
		}
		left, err := s.Close()
		fmt.Println(left.Steps, err)
		return nil
	})
	// Output:
	// [2 3] <nil>
}

var kept = replay.Define[int]("example.kept", replay.Config{Tables: []replay.Table{
	{Name: "train", MaxSize: 100, Limiter: replay.SampleToInsertRatio(4, 10, 100)},
}})

// The buffer goes back to its checkpoint, and its limiter begins anew: so may a program whose limiter was another.
func ExampleClient_Restore() {
	dir, err := os.MkdirTemp("", "replay")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	_ = system.Run(context.Background(), system.Config{Data: dir}, func(ctx context.Context) error {
		buffer := kept.Get("run-7")
		if err := buffer.Insert(ctx, "train", make([]int, 20), nil); err != nil {
			return err
		}
		if err := buffer.Checkpoint(ctx, "latest"); err != nil {
			return err
		}
		if err := buffer.Clear(ctx); err != nil {
			return err
		}
		if err := buffer.Restore(ctx, "latest", replay.ResetLimiter); err != nil {
			return err
		}
		info, err := buffer.Info(ctx)
		fmt.Println(info.Size("train"), info.Shards[0].Tables[0].Samples, err)
		return nil
	})
	// Output:
	// 20 40 <nil>
}
