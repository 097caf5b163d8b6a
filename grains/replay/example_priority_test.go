package replay_test

import (
	"context"
	"fmt"

	"github.com/raysys/raysys/grains/replay"
	"github.com/raysys/raysys/system"
)

// Move is what an actor of the example sees.
type Move struct {
	Obs    []float32
	Reward float64
}

var moves = replay.Define[Move]("example.moves", replay.Config{Tables: []replay.Table{
	{Name: "best", Sampler: replay.MaxHeap, MaxSize: 1000, Limiter: replay.MinSize(2)},
}})

// An actor writes its steps, and a learner samples them by their priorities and changes those.
func Example_sampleByPriority() {
	err := system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		buffer := moves.Get("run-7")
		w, err := buffer.Writer(replay.NStep("best", 2)) // items of two steps
		if err != nil {
			return err
		}
		for _, reward := range []float64{1, 2, 3} {
			if err := w.Append(ctx, Move{Obs: []float32{0.5}, Reward: reward}); err != nil {
				return err
			}
		}
		if err := w.Flush(ctx); err != nil {
			return err
		}
		batch, err := buffer.Sample(ctx, "best", 1)
		if err != nil {
			return err
		}
		fmt.Println(batch.Len(), "item of", len(batch.Item(0)), "steps, of", batch.Size)
		if err := buffer.Update(ctx, "best", batch.Keys, []float64{0.5}); err != nil {
			return err
		}
		if batch, err = buffer.Sample(ctx, "best", 1); err != nil {
			return err
		}
		fmt.Println(batch.Item(0)[0].Reward, batch.Priorities)
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// 1 item of 2 steps, of 2
	// 2 [1]
}
