package guide_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains/replay"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// Seen is what an actor sees at one time.
type Seen struct {
	Obs    []float32
	Action int
	Reward float32
}

var experience = replay.Define[Seen]("guide.experience", replay.Config{Tables: []replay.Table{{
	Name:    "train",
	Sampler: replay.Prioritized(0.6),
	MaxSize: 100_000,
	Limiter: replay.SampleToInsertRatio(2, 100, 1600),
}}})

var act = tasks.Define("guide.act", func(ctx context.Context, episodes int) (int, error) {
	w, err := experience.Get("run").Writer(replay.NStep("train", 5))
	if err != nil {
		return 0, err
	}
	r := raysys.Rand(ctx)
	for range episodes {
		for range 20 {
			seen := Seen{Obs: []float32{r.Float32()}, Action: r.IntN(2), Reward: 1}
			if err := w.Append(ctx, seen); err != nil {
				return 0, err
			}
		}
		if err := w.End(ctx); err != nil { // of the episode
			return 0, err
		}
	}
	return episodes, w.Flush(ctx)
})

func TestReplay(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		k.Cluster().Ready()
		ctx := k.Context()
		done := act.Map(ctx, []int{10, 10, 10})
		buffer := experience.Get("run")
		s := buffer.Sampler("train", 64, 2) // two calls ahead
		for range 10 {
			batch, err := s.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			errs := make([]float64, batch.Len())
			for i := range errs {
				item := batch.Item(i) // up to five steps
				errs[i] = float64(item[0].Reward) / batch.Probabilities[i]
			}
			if err := buffer.Update(ctx, "train", batch.Keys, errs); err != nil {
				t.Fatal(err)
			}
		}
		left, err := s.Close()
		if err != nil {
			t.Error(left.Len(), err)
		}
		if _, err := raysys.GetAll(ctx, done).Values(); err != nil {
			t.Fatal(err)
		}
		short, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		_, err = experience.Get("empty").Sample(short, "train", 1)
		var shut *replay.ShutError
		if errors.As(err, &shut) { // before the deadline
			t.Logf("%s has %g items and needs %g", shut.Table, shut.Has, shut.Needs)
		}
		if shut == nil {
			t.Error(err)
		}
		if err := buffer.Checkpoint(ctx, "latest"); err != nil {
			t.Fatal(err)
		}
		if err := buffer.Restore(ctx, "latest"); err != nil {
			t.Fatal(err)
		}
	}, testkit.Each(func(_ int, cfg *system.Config) { cfg.Objects.Spill = t.TempDir() }), testkit.Nodes(2))
}
