package replay_test

import (
	"context"
	"errors"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/raysys/raysys/grains/replay"
	"github.com/raysys/raysys/testkit"
)

// TestLocal: a table without grains has the limiter, selectors and removers of one with them.
func TestLocal(t *testing.T) {
	l, err := replay.NewLocal[string](replay.Table{
		Name: "t", Sampler: replay.Prioritized(1), MaxSize: 4, Limiter: replay.SampleToInsertRatio(2, 3, 4),
	}, 1)
	if err != nil {
		t.Fatal(err)
	}
	var shut *replay.ShutError
	for _, s := range []string{"a", "b", "c", "d", "e"} {
		if l.Len() < 3 {
			if _, err := l.Sample(1); !errors.As(err, &shut) || !shut.Items || shut.Insert {
				t.Fatal(err)
			}
		}
		if err := l.Insert(s, 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Insert("f", 1); !errors.As(err, &shut) || !shut.Insert || l.Len() != 4 { // 12 less 0 is more than 6+4
		t.Fatal(err)
	}
	got, err := l.Sample(7)
	if err != nil || got.Len() != 7 || got.Size != 4 {
		t.Fatal(got, err)
	}
	for i, s := range got.Steps {
		if s == "a" || got.Probabilities[i] != 0.25 || !reflect.DeepEqual(got.Item(i), []string{s}) {
			t.Errorf("%d: %q with %v", i, s, got.Probabilities[i])
		}
	}
	if _, err := l.Sample(9); !errors.As(err, &shut) || shut.Insert || shut.Items {
		t.Error(err)
	}
	if err := l.Update([]uint64{1, 2, 3, 4}, []float64{0, 0, 5, 0}); err != nil {
		t.Error(err)
	}
	if got, err := l.Sample(1); err != nil || got.Steps[0] != "d" || got.Probabilities[0] != 1 || got.Priorities[0] != 5 {
		t.Error(got, err)
	}
	for _, err := range []error{l.Update([]uint64{1}, nil), l.Update([]uint64{1}, []float64{-1}), l.Insert("x", math.NaN())} {
		if !errors.Is(err, replay.ErrConfig) && !errors.Is(err, replay.ErrPriority) {
			t.Error(err)
		}
	}
	if _, err := l.Sample(0); !errors.Is(err, replay.ErrConfig) {
		t.Error(err)
	}
	if _, err := replay.NewLocal[string](replay.Table{Name: "t"}, 1); !errors.Is(err, replay.ErrConfig) {
		t.Error(err)
	}
}

// TestLocalRepeats by its seed.
func TestLocalRepeats(t *testing.T) {
	draw := func(seed uint64) (keys []uint64) {
		l, err := replay.NewLocal[int](replay.Table{Name: "t", MaxSize: 100}, seed)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 150 {
			if err := l.Insert(i, 1); err != nil {
				t.Fatal(err)
			}
			got, err := l.Sample(3)
			if err != nil {
				t.Fatal(err)
			}
			for j, s := range got.Steps {
				if uint64(s) != got.Keys[j] {
					t.Fatalf("key %d has step %d", got.Keys[j], s)
				}
			}
			keys = append(keys, got.Keys...)
		}
		return keys
	}
	if a := draw(1); !reflect.DeepEqual(a, draw(1)) || reflect.DeepEqual(a, draw(2)) {
		t.Error("the samples do not follow from the seed")
	}
}

var (
	cleared = replay.Define[int]("test-cleared", replay.Config{Shards: 2, Tables: []replay.Table{{Name: "t", MaxSize: 10}}})
	scarce  = replay.Define[int]("test-scarce", replay.Config{Tables: []replay.Table{{
		Name: "t", MaxSize: 10, Sampler: replay.FIFO, MaxTimesSampled: 1, Limiter: replay.Queue(10),
	}}})
)

// TestClear: a buffer that was cleared begins anew.
func TestClear(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(2))
	ctx := k.Context()
	c := cleared.Get("a")
	for range 2 {
		if err := c.Insert(ctx, "t", []int{1, 2, 3}, nil); err != nil {
			t.Fatal(err)
		}
		if info, err := c.Info(ctx); err != nil || info.Size("t") != 3 {
			t.Fatal(info, err)
		}
		if err := c.Clear(ctx); err != nil {
			t.Fatal(err)
		}
		if info, err := c.Info(ctx); err != nil || info.Size("t") != 0 {
			t.Fatal(info, err)
		}
	}
}

// TestSamplerKeeps: what a sampler took before the table was empty is part of what it returns later. In virtual time.
func TestSamplerKeeps(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		c := scarce.Get("a")
		s := c.Sampler("t", 4, 0)
		for i := range 3 {
			if err := c.Insert(k.Context(), "t", []int{i}, nil); err != nil {
				k.T().Fatal(err)
			}
			ctx, cancel := context.WithTimeout(k.Context(), time.Second)
			var shut *replay.ShutError
			if got, err := s.Next(ctx); !errors.As(err, &shut) {
				k.T().Error(got, err)
			}
			cancel()
		}
		if err := c.Insert(k.Context(), "t", []int{3, 4}, nil); err != nil {
			k.T().Fatal(err)
		}
		ctx, cancel := context.WithTimeout(k.Context(), time.Second)
		defer cancel()
		if got, err := s.Next(ctx); err != nil || !reflect.DeepEqual(got.Steps, []int{0, 1, 2, 3}) {
			k.T().Error(got, err)
		}
	})
}

// TestLocalRunsOut: items that may be sampled several times, and have been, are not counted as whole ones.
func TestLocalRunsOut(t *testing.T) {
	l, err := replay.NewLocal[int](replay.Table{Name: "t", MaxSize: 10, MaxTimesSampled: 3}, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		if err := l.Insert(i, 1); err != nil {
			t.Fatal(err)
		}
	}
	var shut *replay.ShutError
	if s, err := l.Sample(4); err != nil || s.Len() != 4 {
		t.Fatal(s, err)
	}
	if s, err := l.Sample(3); !errors.As(err, &shut) || l.Len() == 0 {
		t.Error(s, err)
	}
	if s, err := l.Sample(2); err != nil || s.Len() != 2 || l.Len() != 0 {
		t.Error(s, err)
	}
}
