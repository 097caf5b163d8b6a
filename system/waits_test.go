package system_test

import (
	"context"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/system"
)

type queued struct{}

var (
	queuedKind  = grains.DefineIn[queued](table, "queued")
	queuedSleep = grains.Action(queuedKind, "sleep", func(_ *queued, _ context.Context, d time.Duration) error { <-time.After(d); return nil })
)

// TestWaitsOfCalls: how long calls waited for their turn is counted, also of those that end before it: from the call, and of one from another
// node from its arrival. The oldest wait is known of a call with a deadline of its own, and of one without any since a look at it.
func TestWaitsOfCalls(t *testing.T) {
	for name, far := range map[string]bool{"from the node": false, "from another node": true} {
		inBubble(t, func(b *bubble) {
			t := b.t
			a, ctx := b.join("a", system.Both)
			if far {
				_, ctx = b.join("d", system.Driver)
			}
			row := func() inspect.Function {
				t.Helper()
				all, err := a.Functions(ctx, 0)
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range all.Functions {
					if f.Name == "queued.sleep" {
						return f
					}
				}
				return inspect.Function{}
			}
			about := func(what string, got, want time.Duration) {
				t.Helper()
				if got < want-want/50 || got > want+want/8+200*time.Millisecond {
					t.Errorf("%s: %s is %v, want about %v", name, what, got, want)
				}
			}
			<-time.After(time.Second) // the clock of a node begins with 0, which is no time of a call
			key := queuedKind.Get("x")
			var all []raysys.Ref[struct{}]
			for range 15 { // the last is in its turn after 14 s
				all = append(all, queuedSleep.With(raysys.Deadline(time.Minute)).Call(ctx, key, time.Second))
			}
			<-time.After(3500 * time.Millisecond)
			if f := row(); f.Running != 1 || f.Waiting != 11 {
				t.Errorf("%s: %d run, %d wait", name, f.Running, f.Waiting)
			}
			about("the oldest wait", row().Oldest, 3500*time.Millisecond)
			for _, r := range all {
				if _, err := r.Get(ctx); err != nil {
					t.Fatal(err)
				}
			}
			about("the wait of half of them", row().WaitP50, 7*time.Second)
			about("the longest wait", row().WaitP99, 14*time.Second)

			// A call that nobody waits for any more has waited, too.
			holds := queuedSleep.Call(ctx, key, 100*time.Second)
			<-time.After(time.Second)
			if _, err := queuedSleep.With(raysys.Deadline(40*time.Second)).Call(ctx, key, 0).Get(ctx); err == nil {
				t.Error("it had a turn")
			}
			<-time.After(time.Second)
			about("the longest wait", row().WaitP99, 40*time.Second)

			// Without a deadline.
			rests := queuedSleep.With(raysys.NoDeadline()).Call(ctx, key, 0)
			<-time.After(17 * time.Second)
			if f := row(); f.Waiting != 1 || f.Oldest < 10*time.Second || f.Oldest > 18*time.Second {
				t.Errorf("%s: without a deadline: %d wait, the oldest %v", name, f.Waiting, f.Oldest)
			}
			if _, err := rests.Get(ctx); err != nil {
				t.Error(err)
			}
			if _, err := holds.Get(ctx); err != nil {
				t.Error(err)
			}
			longest := 40 * time.Second
			if far {
				longest = 59 * time.Second // its node knows when it arrived
			}
			about("the longest wait", row().WaitP99, longest)
		})
	}
}
