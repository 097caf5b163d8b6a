package raysys_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/tasks"
)

// Wait splits the refs it was given, which stay as they were: the settled ones, as many as asked for where there are,
// and the rest.
func TestWaitSplits(t *testing.T) {
	table := raysys.NewTable()
	gate, open := gated(table)
	_, ctx := node(t, table)
	pending := gate.Map(ctx, make([]int, 8))
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
				refs = append(refs, raysys.Ref[int](core.FailedRef[int](errBoom)))
				settled++
			default:
				refs = append(refs, pending[i])
			}
		}
		before := slices.Clone(refs)
		ready, rest, err := raysys.Wait(ended, refs, n)
		if !slices.Equal(refs, before) {
			t.Fatal("Wait changed the caller's slice")
		}
		if n < 0 {
			if !errors.Is(err, raysys.ErrBadOption) {
				t.Fatalf("Wait for %d: %v, want ErrBadOption", n, err)
			}
			return
		}
		want := min(n, len(refs))
		if (err != nil) != (want > settled) || err != nil && !errors.Is(err, raysys.ErrCancelled) {
			t.Fatalf("%v for %d of %d settled", err, n, settled)
		}
		if len(ready) != min(want, settled) || len(ready)+len(rest) != len(refs) {
			t.Fatalf("%d ready and %d rest of %v, n %d", len(ready), len(rest), kinds, n)
		}
		_, _ = append(ready, raysys.Ref[int]{}), append(rest, raysys.Ref[int]{})
		if !slices.Equal(refs, before) {
			t.Fatal("an append to what Wait returned changed the caller's slice")
		}
		order := []int{}
		for _, r := range ready {
			if s := raysys.PhaseOf(r); s == raysys.PhasePending {
				t.Fatalf("%v is among the ready", r)
			}
			order = append(order, slices.Index(before, r))
		}
		if !slices.IsSorted(order) {
			t.Fatalf("the ready are in order %v", order)
		}
		all := append(slices.Clone(ready), rest...)
		for _, r := range before {
			i := slices.Index(all, r)
			if i < 0 {
				t.Fatalf("%v is gone", r)
			}
			all = slices.Delete(all, i, i+1)
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
			if s := raysys.PhaseOf(r); s != raysys.PhasePending {
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
				if r := <-first; r != mid || raysys.PhaseOf(r) != raysys.PhaseCancelled {
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
			if r != refs[i] || raysys.PhaseOf(r) == raysys.PhasePending {
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

// A reference that comes twice would be counted twice: it is refused, settled or not.
func TestWaitRefusesDuplicates(t *testing.T) {
	table := raysys.NewTable()
	gate, open := gated(table)
	_, ctx := node(t, table)
	defer close(open)
	there, pending := raysys.Put(ctx, 1), gate.Go(ctx, 1)
	for name, refs := range map[string][]raysys.Ref[int]{
		"settled":            {there, there},
		"settled, not first": {pending, there, there},
		"pending":            {pending, pending},
	} {
		if _, _, err := raysys.Wait(ctx, refs, 2); !errors.Is(err, raysys.ErrInvalidRef) || !strings.Contains(err.Error(), "twice") {
			t.Errorf("%s: %v, want ErrInvalidRef that says why", name, err)
		}
	}
	if _, _, err := raysys.Wait(ctx, []raysys.Ref[int]{there}, -1); !errors.Is(err, raysys.ErrBadOption) {
		t.Errorf("Wait for -1: %v, want ErrBadOption", err)
	}
}

// A loop over a set sees what is added while it runs, by itself and by others, and ends when nothing is left.
func TestRefSetGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := raysys.NewTable()
		after := tasks.DefineIn(table, "after", func(ctx context.Context, d time.Duration) (time.Duration, error) {
			<-time.After(d)
			return d, nil
		}).With(raysys.CPU(0))
		_, ctx := node(t, table)
		var set raysys.RefSet[time.Duration]
		set.Add(after.Go(ctx, 3*time.Second), after.Go(ctx, time.Second))
		late := time.AfterFunc(1500*time.Millisecond, func() { set.Add(after.Go(ctx, time.Second), raysys.Ref[time.Duration]{}) })
		defer late.Stop()
		var got []string
		for i, r := range set.AsCompleted(ctx) {
			if i == 1 {
				set.Add(raysys.Ready(time.Duration(7)))
			}
			v, err := r.Get(ctx)
			got = append(got, fmt.Sprint(i, v, err != nil))
		}
		if want := []string{"1 1s false", "2 7ns false", "4 0s true", "3 1s false", "0 3s false"}; !slices.Equal(got, want) {
			t.Errorf("the loop saw %v, want %v", got, want)
		}
		for range set.AsCompleted(ctx) {
			t.Error("the set is not empty after its loop")
		}
	})
}

// What a loop that was left early has not seen stays in the set.
func TestRefSetKeepsTheRest(t *testing.T) {
	_, ctx := node(t, raysys.NewTable())
	var set raysys.RefSet[int]
	set.Add(raysys.Put(ctx, 1), raysys.Put(ctx, 2), raysys.Put(ctx, 3))
	var got []int
	for range 3 {
		for i, r := range set.AsCompleted(ctx) {
			v, _ := r.Get(ctx)
			got = append(got, i, v)
			break
		}
	}
	if want := []int{0, 1, 1, 2, 2, 3}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Members settle, are added and are left while loops come and go.
func TestRefSetUnderRace(t *testing.T) {
	table := raysys.NewTable()
	quick := tasks.DefineIn(table, "quick", func(_ context.Context, n int) (int, error) { return n, nil })
	_, ctx := node(t, table)
	var set raysys.RefSet[int]
	const each = 50
	var adders sync.WaitGroup
	for range 4 {
		adders.Go(func() {
			for i := range each {
				set.Add(quick.Go(ctx, i))
			}
		})
	}
	for seen := 0; seen < 4*each; {
		for _, r := range set.AsCompleted(ctx) {
			if _, err := r.Get(ctx); err != nil {
				t.Fatal(err)
			}
			if seen++; seen%7 == 0 {
				break
			}
		}
	}
	adders.Wait()
}
