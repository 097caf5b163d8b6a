package raysys_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/tasks"
)

// Wait keeps the refs it was given, in place: the settled ones in front, as many as asked for where there are.
func TestWaitReordersInPlace(t *testing.T) {
	table := raysys.NewTable()
	gate, open := gated(table)
	_, ctx := node(t, table)
	pending := gate.Go(ctx, 1)
	defer close(open)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	rapid.Check(t, func(t *rapid.T) {
		kinds := rapid.SliceOfN(rapid.SampledFrom([]string{"ready", "failed", "pending"}), 0, 8).Draw(t, "refs")
		n := rapid.IntRange(-1, 10).Draw(t, "n")
		var refs []raysys.Ref[int]
		settled := 0
		for i, k := range kinds {
			switch k {
			case "ready":
				refs = append(refs, raysys.Put(ctx, i))
				settled++
			case "failed":
				refs = append(refs, raysys.FailedRef[int](errBoom))
				settled++
			default:
				refs = append(refs, pending)
			}
		}
		before := slices.Clone(refs)
		ready, rest, err := raysys.Wait(ended, refs, n)
		want := max(0, min(n, len(refs)))
		if (err != nil) != (want > settled) || err != nil && !errors.Is(err, raysys.ErrCancelled) {
			t.Fatalf("%v for %d of %d settled", err, n, settled)
		}
		if len(ready) != min(want, settled) || len(ready)+len(rest) != len(refs) {
			t.Fatalf("%d ready and %d rest of %v, n %d", len(ready), len(rest), kinds, n)
		}
		if len(refs) > 0 && (len(ready) > 0 && &ready[0] != &refs[0] || len(rest) > 0 && &rest[0] != &refs[len(ready)]) {
			t.Fatal("the results are not parts of refs")
		}
		order := []int{}
		for _, r := range ready {
			if s := raysys.State(r); s == raysys.StatePending {
				t.Fatalf("%v is among the ready", r)
			}
			order = append(order, slices.Index(before, r))
		}
		if !slices.IsSorted(order) {
			t.Fatalf("the ready are in order %v", order)
		}
		for _, r := range before {
			i := slices.Index(refs, r)
			if i < 0 {
				t.Fatalf("%v is gone", r)
			}
			refs[i] = raysys.Ref[int]{}
		}
	})
}

// The deadline of Wait is its context's, and what is there by then is not lost.
func TestWaitUntilADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := raysys.NewTable()
		after := tasks.DefineIn(table, "after", func(ctx context.Context, d time.Duration) (int, error) {
			select {
			case <-time.After(d):
				return 1, nil
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}).With(raysys.CPU(0))
		_, ctx := node(t, table)
		refs := []raysys.Ref[int]{after.Go(ctx, time.Hour), after.Go(ctx, time.Second), after.Go(ctx, time.Hour), after.Go(ctx, 2*time.Second)}
		second, fourth := refs[1], refs[3]
		start := time.Now()
		sub, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		ready, rest, err := raysys.Wait(sub, refs, 1)
		if err != nil || len(ready) != 1 || ready[0] != second || time.Since(start) != time.Second {
			t.Fatalf("the first of four: %v, %v after %v", ready, err, time.Since(start))
		}
		ready, rest, err = raysys.Wait(sub, rest, 2)
		if !errors.Is(err, raysys.ErrDeadline) || len(ready) != 1 || ready[0] != fourth || len(rest) != 2 || time.Since(start) != 10*time.Second {
			t.Fatalf("two more: %v, %v after %v", ready, err, time.Since(start))
		}
		for _, r := range rest {
			if s := raysys.State(r); s != raysys.StatePending {
				t.Errorf("what was waited for in vain is %v", s)
			}
		}
	})
}

// A wait for several futures sees each end, also one that only its own context brings about.
func TestWaitAcrossContexts(t *testing.T) {
	for _, verb := range []string{"Wait", "AsCompleted"} {
		for at := range 3 {
			synctest.Test(t, func(t *testing.T) {
				table := raysys.NewTable()
				gate, open := gated(table)
				defer close(open)
				one := echo(table)
				_, ctx := node(t, table)
				never := gate.Go(ctx, 1)
				var refs []raysys.Ref[int]
				var cancels []context.CancelFunc
				for range 3 {
					sub, cancel := context.WithCancel(ctx)
					defer cancel()
					cancels = append(cancels, cancel)
					refs = append(refs, one.On(sub, never)) // held for good
				}
				mid := refs[at]
				first := make(chan raysys.Ref[int], 1)
				go func() {
					if verb == "Wait" {
						ready, _, err := raysys.Wait(ctx, refs, 1)
						if err != nil {
							t.Error(err)
						}
						first <- ready[0]
						return
					}
					for _, r := range raysys.AsCompleted(ctx, refs) {
						first <- r
						return
					}
				}()
				synctest.Wait()
				cancels[at]()
				if r := <-first; r != mid || raysys.State(r) != raysys.StateCancelled {
					t.Errorf("%s: got %v, want %v cancelled", verb, r, mid)
				}
			})
		}
	}
}

func TestWaitForTheZeroRef(t *testing.T) {
	_, ctx := node(t, raysys.NewTable())
	refs := []raysys.Ref[int]{raysys.Ready(1), {}}
	if ready, rest, err := raysys.Wait(ctx, refs, 2); !errors.Is(err, raysys.ErrInvalidRef) || len(ready) != 1 || len(rest) != 1 {
		t.Errorf("got %v, %v, %v; want ErrInvalidRef", ready, rest, err)
	}
	count := 0
	for range raysys.AsCompleted(ctx, refs) {
		count++
	}
	if count != 2 {
		t.Errorf("AsCompleted yields %d of 2", count)
	}
}

// AsCompleted yields each future once, in the order in which they settle.
func TestAsCompleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := raysys.NewTable()
		after := tasks.DefineIn(table, "after", func(ctx context.Context, d time.Duration) (int, error) {
			select {
			case <-time.After(d):
			case <-ctx.Done():
				return 0, ctx.Err()
			}
			if d == 2*time.Second {
				return 0, errBoom
			}
			return 1, nil
		}).With(raysys.CPU(0))
		_, ctx := node(t, table)
		var refs []raysys.Ref[int]
		for _, s := range []time.Duration{5, 1, 3, 2, 4} {
			refs = append(refs, after.Go(ctx, s*time.Second))
		}
		refs = append(refs, raysys.Ready(1), refs[1])
		start, order, times := time.Now(), []int{}, []time.Duration{}
		for i, r := range raysys.AsCompleted(ctx, refs) {
			if r != refs[i] || raysys.State(r) == raysys.StatePending {
				t.Errorf("index %d comes with %v", i, r)
			}
			order, times = append(order, i), append(times, time.Since(start).Round(time.Second))
		}
		slices.Sort(order[1:3]) // the same future twice
		if !slices.Equal(order, []int{5, 1, 6, 3, 2, 4, 0}) {
			t.Errorf("order %v at %v", order, times)
		}
		if want := []time.Duration{0, 1, 1, 2, 3, 4, 5}; times[6] != want[6]*time.Second || times[3] != want[3]*time.Second {
			t.Errorf("times %v", times)
		}

		// It ends early with the loop, or with its context.
		refs = []raysys.Ref[int]{after.Go(ctx, time.Second), after.Go(ctx, time.Minute)}
		for i := range raysys.AsCompleted(ctx, refs) {
			if i != 0 {
				t.Errorf("first completed: %d", i)
			}
			break
		}
		sub, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		order = nil
		for i := range raysys.AsCompleted(sub, refs) {
			order = append(order, i)
		}
		if !slices.Equal(order, []int{0}) || sub.Err() == nil {
			t.Errorf("until the deadline: %v", order)
		}
	})
}
