package replay

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/raysys/raysys/testkit"
)

// TestSamplerLosesNothing: on a way of 20 ms, with a ctx for each Next that ends or is cancelled at any time, each item of a queue comes to a
// Next or to Close, or is still in the table.
func TestSamplerLosesNothing(t *testing.T) {
	const n = 400
	for _, shards := range []int{1, 3} {
		for _, ahead := range []int{0, 2} {
			t.Run(fmt.Sprintf("shards=%d/ahead=%d", shards, ahead), func(t *testing.T) {
				cfg := oneTable(Table{Name: "t", Sampler: FIFO, MaxSize: n, MaxTimesSampled: 1, Limiter: Queue(50)})
				cfg.Shards = shards
				bytesOf(t, cfg, func(k *testkit.Kit, ctx context.Context, c *Client[string]) {
					for i := 1; i <= 3; i++ {
						k.Cluster().Delay(0, i, 10*time.Millisecond, 0)
					}
					var want, got []string
					for i := range n {
						want = append(want, fmt.Sprintf("%03d", i))
					}
					inserted := make(chan error, 1)
					go func() {
						var err error
						for i := 0; i < n && err == nil; i += 20 {
							err = c.Insert(ctx, "t", want[i:i+20], nil)
						}
						inserted <- err
					}()
					s := c.Sampler("t", 10, ahead)
					failed := 0
					for i := 0; len(got) < n*3/4; i++ {
						if i > 10_000 {
							t.Fatal("it stops at", len(got))
						}
						short, cancel := context.WithTimeout(ctx, time.Duration(1+i*7%60)*time.Millisecond)
						if i%3 == 0 {
							time.AfterFunc(time.Duration(i*11%50)*time.Millisecond, cancel)
						}
						b, err := s.Next(short)
						cancel()
						if err != nil {
							failed++
						} else if b.Len() != 10 {
							t.Fatal(b.Len())
						}
						got = append(got, b.Steps...)
					}
					left, err := s.Close()
					if err != nil {
						t.Error(err)
					}
					got = append(got, left.Steps...)
					for len(got) < n {
						long, cancel := context.WithTimeout(ctx, 5*time.Second)
						b, err := c.Sample(long, "t", 1)
						cancel()
						if err != nil {
							t.Error(err)
							break
						}
						got = append(got, b.Steps...)
					}
					if slices.Sort(got); !slices.Equal(got, want) || failed == 0 {
						t.Errorf("%d Nexts failed; %d of %d items came: %v", failed, len(got), n, got)
					}
					if err := <-inserted; err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

// TestSamplerCloses: Close ends the questions that wait at the shard, and returns what those that did not have taken.
func TestSamplerCloses(t *testing.T) {
	bytesOf(t, oneTable(Table{Name: "t", Sampler: FIFO, MaxSize: 10, MaxTimesSampled: 1, Limiter: Queue(10)}), func(k *testkit.Kit, ctx context.Context, c *Client[string]) {
		if err := c.Insert(ctx, "t", []string{"a", "b", "c", "d", "e"}, nil); err != nil {
			t.Fatal(err)
		}
		s := c.Sampler("t", 2, 3)
		if b, err := s.Next(ctx); err != nil || !slices.Equal(b.Steps, []string{"a", "b"}) {
			t.Fatal(b.Steps, err)
		}
		k.Settle() // of the three calls ahead one has two items, one has one, and one waits
		at := time.Now()
		left, err := s.Close()
		if err != nil || !slices.Equal(left.Steps, []string{"c", "d", "e"}) || time.Since(at) > time.Second { // virtual time
			t.Error(left.Steps, err, time.Since(at))
		}
		if info, err := c.Info(ctx); err != nil || info.Shards[0].Tables[0].WaitingSamples != 0 {
			t.Errorf("%+v, %v", info, err)
		}
		if left, err := s.Close(); err != nil || left.Len() != 0 {
			t.Error(left.Steps, err)
		}
		if left, err := c.Sampler("t", 2, 3).Close(); err != nil || left.Len() != 0 {
			t.Error(left.Steps, err)
		}
		for i := 1; i <= 3; i++ {
			k.Cluster().Cut(0, i)
		}
		s = c.Sampler("t", 2, 3)
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := s.Next(short); err == nil {
			t.Error("there are samples")
		}
		if _, err := s.Close(); err == nil {
			t.Error("Close knows what a shard has taken that it does not reach")
		}
	})
}
