package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/testkit"
)

// TestWriterLosesNothing: whatever ends an Append, its step is in once after the Flush that succeeds, and Pending says how many are not.
func TestWriterLosesNothing(t *testing.T) {
	within := func(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, d)
	}
	heal := func(k *testkit.Kit) { k.Cluster().Heal() }
	for name, c := range map[string]struct {
		limiter Limiter
		shards  int
		// before gives the ctx of Append i, and may break what it likes; mend is called where one has failed.
		before func(k *testkit.Kit, i int, ctx context.Context) (context.Context, context.CancelFunc)
		mend   func(k *testkit.Kit)
	}{
		"shut": {Queue(7), 1, func(_ *testkit.Kit, _ int, ctx context.Context) (context.Context, context.CancelFunc) {
			return within(ctx, time.Second)
		}, nil},
		"shut shards": {Queue(3), 3, func(_ *testkit.Kit, _ int, ctx context.Context) (context.Context, context.CancelFunc) {
			return within(ctx, time.Second)
		}, nil},
		"cancelled": {Queue(7), 1, func(_ *testkit.Kit, i int, ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Duration(i%5)*100*time.Millisecond, cancel)
			return ctx, cancel
		}, nil},
		"over before": {MinSize(1), 1, func(_ *testkit.Kit, i int, ctx context.Context) (context.Context, context.CancelFunc) {
			return within(ctx, time.Duration(i%3-1)*time.Second)
		}, nil},
		"no answer": {MinSize(1), 2, func(k *testkit.Kit, i int, ctx context.Context) (context.Context, context.CancelFunc) {
			if i%10 == 3 { // what comes is in, and the caller does not hear of it
				for node := range 3 {
					k.Cluster().CutOneWay(node+1, 0)
				}
			}
			return within(ctx, time.Second)
		}, heal},
		"the way breaks": {MinSize(1), 2, func(k *testkit.Kit, i int, ctx context.Context) (context.Context, context.CancelFunc) {
			for node := 1; node <= 3; node++ {
				k.Cluster().Delay(0, node, 20*time.Millisecond, 10*time.Millisecond)
				time.AfterFunc(time.Duration(10+i%7*5)*time.Millisecond, func() { k.Cluster().Reset(0, node) })
			}
			return within(ctx, 300*time.Millisecond)
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := oneTable(Table{Name: "t", Sampler: FIFO, MaxSize: 1000, MaxTimesSampled: 1, Limiter: c.limiter})
			cfg.Shards = c.shards
			bytesOf(t, cfg, func(k *testkit.Kit, ctx context.Context, b *Client[string]) {
				w, err := b.Writer(NStep("t", 1))
				if err != nil {
					t.Fatal(err)
				}
				var want, got []string
				drain := func() {
					for {
						short, cancel := within(ctx, time.Second)
						s, err := b.Sample(short, "t", 1)
						cancel()
						if err != nil {
							return
						}
						got = append(got, s.Steps[0][:3])
					}
				}
				failed := 0
				for i := range 60 {
					want = append(want, fmt.Sprintf("%03d", i))
					short, cancel := c.before(k, i, ctx)
					err := w.Append(short, want[i]+strings.Repeat("x", 60_000))
					cancel()
					if err != nil {
						if failed++; w.Pending() == 0 {
							t.Error("Append fails, and nothing is left:", err)
						}
						if c.mend != nil {
							c.mend(k)
						} else if i%4 == 0 && c.limiter.queue > 0 {
							drain()
						}
					}
				}
				k.Cluster().Heal()
				for err := errors.New("not yet"); err != nil; {
					short, cancel := within(ctx, 2*time.Second)
					err = w.Flush(short)
					cancel()
					if left := w.Pending(); (err == nil) != (left == 0) {
						t.Fatal(left, "are left, and Flush says", err)
					}
					drain()
				}
				drain()
				if slices.Sort(got); !slices.Equal(got, want) || failed == 0 {
					t.Errorf("%d Appends failed; %d steps came, of %d: %v", failed, len(got), len(want), got)
				}
			})
		})
	}
}

// TestWriterOutlivesAShard: what a Writer had not put into a shard whose node dies is in the next activation, once.
func TestWriterOutlivesAShard(t *testing.T) {
	bytesOf(t, oneTable(Table{Name: "t", Sampler: FIFO, MaxSize: 1000}), func(k *testkit.Kit, ctx context.Context, b *Client[string]) {
		w, err := b.Writer(NStep("t", 1))
		if err != nil {
			t.Fatal(err)
		}
		for i := 1; i <= 3; i++ { // no node is reached
			k.Cluster().Cut(0, i)
		}
		for i := range 40 {
			short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			err = errors.Join(err, w.Append(short, fmt.Sprintf("%02d", i)+strings.Repeat("x", 60_000)))
			cancel()
		}
		if left := w.Pending(); err == nil || left != 40 {
			t.Fatal(left, err)
		}
		k.Cluster().Kill(1)
		k.Cluster().Heal()
		k.Cluster().Restart(1)
		k.Cluster().Ready()
		if err := w.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		if info, err := b.Info(ctx); err != nil || info.Size("t") != 40 || info.Shards[0].Tables[0].Inserts != 40 || w.Pending() != 0 {
			t.Errorf("%+v, %v", info, err)
		}
	})
}

// TestWriterPacksAgain: items that are to be objects, and find no store, are made once they find one, each once and as it was meant.
func TestWriterPacksAgain(t *testing.T) {
	bytesOf(t, oneTable(Table{Name: "t", Sampler: FIFO, MaxSize: 1000, MaxTimesSampled: 1}), func(k *testkit.Kit, ctx context.Context, b *Client[string]) {
		w, err := b.Writer(NStep("t", 2), Episode("t"))
		if err != nil {
			t.Fatal(err)
		}
		large := strings.Repeat("x", 300_000)
		for i, step := range []string{"a", "b", large + "c", large + "d", "e", "f"} {
			at := ctx
			if i == 3 {
				at = context.Background() // of no node
			}
			if err := w.Append(at, step); errors.Is(err, raysys.ErrNoRuntime) != (i == 3) {
				t.Fatal(i, err)
			}
		}
		err = w.End(context.Background())
		if err := errors.Join(err, w.Append(ctx, "g"), w.End(ctx), w.Flush(ctx)); err != nil || w.Pending() != 0 {
			t.Fatal(err)
		}
		s, err := b.Sample(ctx, "t", 9)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for i := range s.Len() {
			got = append(got, strings.ReplaceAll(strings.Join(s.Item(i), ""), large, ""))
		}
		if want := []string{"ab", "bc", "cd", "de", "ef", "f", "abcdef", "g", "g"}; !slices.Equal(got, want) {
			t.Errorf("the items are %q, want %q", got, want)
		}
	})
}
