package replay

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/testkit"
)

// TestRestoreIntoAnotherLimiter: a checkpoint of another limiter is refused by name, with what to do, and nothing changes; with ResetLimiter the
// counts begin anew. One that was written before limiters were is read.
func TestRestoreIntoAnotherLimiter(t *testing.T) {
	ratio := SampleToInsertRatio(4, 10, 100)
	bytesOf(t, oneTable(Table{Name: "t", MaxSize: 1000, Limiter: ratio}), func(k *testkit.Kit, ctx context.Context, c *Client[string]) {
		shut := func() bool {
			short, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_, err := c.Sample(short, "t", 1)
			return shutIn(err) != nil
		}
		if err := c.Insert(ctx, "t", make([]string, 30), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Sample(ctx, "t", 180); err != nil || !shut() { // as many as it gives
			t.Fatal(err)
		}
		if err := c.Checkpoint(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		own := c.b.d
		other := *own // of another version of the program
		other.cfg.Tables = slices.Clone(other.cfg.Tables)
		other.cfg.Tables[0].Limiter = MinSize(1)
		c.b.d = &other
		err := c.Restore(ctx, "a")
		if !errors.Is(err, ErrCheckpoint) || !strings.Contains(err.Error(), ratio.String()) || !strings.Contains(err.Error(), "MinSize(1)") || !strings.Contains(err.Error(), "ResetLimiter") {
			t.Error(err)
		}
		if err := c.Restore(ctx, "a", ResetLimiter); err != nil {
			t.Error(err)
		}
		c.b.d = own
		if info, err := c.Info(ctx); err != nil || info.Size("t") != 30 || info.Shards[0].Tables[0].Inserts != 30 || info.Shards[0].Tables[0].Samples != 80 {
			t.Errorf("%+v, %v", info, err)
		}
		if err := c.Restore(ctx, "a"); err != nil || !shut() { // as it was
			t.Error(err)
		}
		if err := c.Restore(ctx, "a", ResetLimiter); err != nil || shut() {
			t.Error(err)
		}
		if err := c.Insert(ctx, "t", make([]string, 20), nil); err != nil {
			t.Error(err)
		}
		m, err := raysys.Lookup[manifest](ctx, c.b.manifest("a")).Get(ctx)
		if err != nil || !slices.Equal(m.Limiters, []string{ratio.String()}) {
			t.Fatal(m, err)
		}
		m.Limiters = nil
		if _, err := raysys.Put(ctx, m, raysys.Named(c.b.manifest("a")), raysys.OnDisk()).Get(ctx); err != nil {
			t.Fatal(err)
		}
		if err := c.Restore(ctx, "a"); err != nil {
			t.Error(err)
		}
	})
}

// TestLimitersBeginAnew: whatever the items and the limiter, one that begins anew opens for samples once there are items enough, and never
// shuts out samples and inserts at the same time; a ratio with some room opens for both.
func TestLimitersBeginAnew(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		items, least := rapid.IntRange(0, 100).Draw(t, "items"), rapid.IntRange(1, 50).Draw(t, "min")
		ratio := rapid.SampledFrom([]float64{0.1, 0.25, 1, 1.5, 7.3}).Draw(t, "ratio")
		buffer := rapid.SampledFrom([]float64{max(1, ratio), 10, 1000, math.Inf(1)}).Draw(t, "buffer")
		for _, l := range []Limiter{MinSize(least), Queue(least), SampleToInsertRatio(ratio, least, buffer)} {
			if l.bad != "" {
				continue
			}
			n, samples := uint64(items), l.sampled(items)
			insert, sample := l.mayInsert(items, n, samples), l.maySample(items, n, samples, 1) > 0
			if sample != (items >= l.minSize) || !insert && (!sample || l.queue == 0 && buffer > ratio+1) {
				t.Fatalf("%v with %d items begins with %d samples: sample %v, insert %v", l, items, samples, sample, insert)
			}
		}
	})
}
