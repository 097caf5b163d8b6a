package stream_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/stream"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// patient is a kind whose handlers take long.
type patient struct{}

var (
	wards    = stream.Define[string]("patients", stream.Partitions(2))
	patients = grains.Define[patient]("patient")
	_        = stream.Into(wards, patients, (*patient).OnVisit, stream.Within(45*time.Second), stream.OnError(stream.Retry(2, time.Second), stream.Park))
	// One attempt is allowed, so that one that counts parks the event.
	onceWards = stream.Define[string]("patients.once", stream.Partitions(2))
	_         = stream.Into(onceWards, patients, (*patient).OnVisit, stream.OnError(stream.Retry(1, time.Second), stream.Park))
	occupy    = grains.Action(patients, "occupy", func(_ *patient, _ context.Context, d time.Duration) error { <-time.After(d); return nil })

	interrupted atomic.Int64 // handlers whose context has ended
)

func (*patient) OnVisit(ctx context.Context, e stream.Event[string]) error {
	write(e.Key, e.Value)
	switch {
	case e.Value == "hangs":
		<-ctx.Done()
		return context.Cause(ctx)
	case e.Value == "deaf": // to its context
		<-time.After(3 * time.Minute)
	case e.Value == "waits" && interrupted.Load() == 0:
		<-ctx.Done()
		interrupted.Add(1)
		return errBroken // and not that of its context
	}
	return nil
}

func inVirtualMemory(t *testing.T) testkit.Option {
	inMemory(t)
	return testkit.Each(func(_ int, cfg *system.Config) { cfg.NATS.URL = "memory:" + t.Name() })
}

// TestWithin: a handler that hangs until its context ends has failed, and counts among the attempts; one that goes on, and returns nil, has
// taken its event; and the time for which an event waits behind other calls of its grain is not the handler's.
func TestWithin(t *testing.T) {
	for first, want := range map[string][]string{
		"hangs": {"hangs", "hangs", "next"},
		"deaf":  {"deaf", "next"},
		"":      {"", "next"},
	} {
		t.Run(first, func(t *testing.T) {
			memory := inVirtualMemory(t)
			testkit.Virtual(t, func(k *testkit.Kit) {
				ctx, t := k.Context(), k.T()
				key := t.Name()
				if first == "" {
					if err := occupy.Tell(ctx, patients.Get(key), 2*time.Minute); err != nil {
						t.Fatal(err)
					}
				}
				for _, what := range []string{first, "next"} {
					if _, err := wards.Publish(ctx, key, what); err != nil {
						t.Fatal(err)
					}
				}
				k.Advance(5 * time.Minute)
				if got := written(key); !slices.Equal(got, want) {
					t.Fatalf("%q, want %q", got, want)
				}
				n := 0
				for e, err := range wards.Parked().Read(ctx, key, stream.ToEnd()) {
					if n++; err != nil || e.Value != "hangs" || !strings.Contains(e.Reason, context.DeadlineExceeded.Error()) {
						t.Fatal(e, err)
					}
				}
				if n != 0 != (first == "hangs") {
					t.Fatal(n, "are parked")
				}
			}, testkit.Nodes(1), memory)
		})
	}
}

// TestInterruptedIsNoFailure: an attempt that ends with its node, in whatever way that goes, does not count, whatever the handler returns.
func TestInterruptedIsNoFailure(t *testing.T) {
	for name, end := range map[string]func(k *testkit.Kit, i int){
		"killed": func(k *testkit.Kit, i int) { k.Cluster().Kill(i) },
		"drained": func(k *testkit.Kit, i int) { // it gives up on the handlers that are on, as any node does
			ctx, cancel := context.WithTimeout(k.Context(), time.Second)
			defer cancel()
			if err := k.Cluster().Node(i).Drain(ctx); err == nil {
				k.T().Log("no handler was on there")
			}
			if err := k.Cluster().Node(i).Close(k.Context()); err != nil {
				k.T().Log(err)
			}
			k.Cluster().Kill(i)
		},
		"fenced": func(k *testkit.Kit, i int) { k.Cluster().ExpireSession(i) },
	} {
		t.Run(name, func(t *testing.T) {
			memory := inVirtualMemory(t)
			testkit.Virtual(t, func(k *testkit.Kit) {
				ctx, t := k.Context(), k.T()
				const keys = 6
				// The pumps are all on one node, and move to the other when it ends. So of two ends of a node the first or the second is that of
				// a node with grains and without their pumps: then a pump hears what the attempt came to.
				for _, node := range []int{2, 2, 1, 1} {
					interrupted.Store(0)
					for i := range keys {
						if _, err := onceWards.Publish(ctx, fmt.Sprint(t.Name(), i), "waits"); err != nil {
							t.Fatal(err)
						}
					}
					k.Advance(5 * time.Second)
					end(k, node)
					k.Advance(5 * time.Second)
					interrupted.Store(1) // who is called from now on takes it
					if name != "fenced" {
						k.Cluster().Restart(node)
					}
					k.Advance(45 * time.Second)
				}
				for i := range keys {
					for e := range onceWards.Parked().Read(ctx, fmt.Sprint(t.Name(), i), stream.ToEnd()) {
						t.Error(e.Key, e.Value, "is parked:", e.Reason)
					}
				}
			}, testkit.Nodes(2), memory)
		})
	}
}

// narrow is a kind whose grains let one call wait.
type narrow struct{}

var (
	queries = stream.Define[string]("narrow.queries", stream.Partitions(1))
	narrows = grains.Define[narrow]("narrow", grains.Mailbox(1))
	_       = stream.Into(queries, narrows, (*narrow).OnQuery, stream.OnError(stream.Retry(1, time.Second), stream.Park))
	stand   = grains.Action(narrows, "stand", func(_ *narrow, _ context.Context, d time.Duration) error { <-time.After(d); return nil })
)

func (*narrow) OnQuery(_ context.Context, e stream.Event[string]) error {
	write(e.Key, e.Value)
	if e.Value == "bomb" {
		return errBroken
	}
	return nil
}

// TestNoRoomIsNoFailure: where one attempt is allowed, an error of the system, here of a grain whose mailbox is full, is none, and the handler's is one.
func TestNoRoomIsNoFailure(t *testing.T) {
	memory := inVirtualMemory(t)
	testkit.Virtual(t, func(k *testkit.Kit) {
		ctx, t := k.Context(), k.T()
		key := t.Name()
		for range 2 { // one is in its turn, the other waits
			if err := stand.Tell(ctx, narrows.Get(key), time.Minute); err != nil {
				t.Fatal(err)
			}
			k.Advance(time.Second)
		}
		if err := queries.PublishAll(ctx, key, []string{"what", "bomb", "when"}); err != nil {
			t.Fatal(err)
		}
		k.Advance(30 * time.Second)
		if got := written(key); got != nil {
			t.Fatal("the mailbox is not full: ", got)
		}
		k.Advance(3 * time.Minute)
		if got := written(key); !slices.Equal(got, []string{"what", "bomb", "when"}) {
			t.Fatal(got)
		}
		var parked []string
		for e, err := range queries.Parked().Read(ctx, key, stream.ToEnd()) {
			if err != nil {
				t.Fatal(err)
			}
			parked = append(parked, e.Value)
		}
		if !slices.Equal(parked, []string{"bomb"}) {
			t.Fatal("parked: ", parked)
		}
	}, testkit.Nodes(1), memory)
}

// TestWithinAndContexts: the handler's context is one of the standard library's, for what is derived from it and for its cause.
func TestWithinAndContexts(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		t := k.T()
		type key struct{}
		cause := errors.New("the call has ended")
		for name, c := range map[string]struct {
			after time.Duration
			end   func(stop context.CancelCauseFunc)
			err   error
			cause error
		}{
			"it lasts":      {time.Second, nil, nil, nil},
			"its end":       {time.Minute, nil, context.DeadlineExceeded, context.DeadlineExceeded},
			"the call ends": {time.Second, func(stop context.CancelCauseFunc) { stop(cause) }, context.Canceled, cause},
		} {
			for _, asked := range []bool{false, true} { // before it ends
				call, stop := context.WithCancelCause(context.WithValue(k.Context(), key{}, name))
				ctx, end := stream.Bounded(call, 30*time.Second)
				if asked {
					select {
					case <-ctx.Done():
						t.Error(name, "it has ended before")
					default:
					}
				}
				below, stopBelow := context.WithCancel(ctx)
				if at, ok := ctx.Deadline(); !ok || time.Until(at) != 30*time.Second {
					t.Error(name, at)
				}
				k.Advance(c.after)
				if c.end != nil {
					c.end(stop)
				}
				k.Advance(time.Millisecond)
				if ctx.Err() != c.err || below.Err() != c.err || context.Cause(ctx) != c.cause || context.Cause(below) != c.cause || below.Value(key{}) != name {
					t.Error(name, asked, ctx.Err(), below.Err(), context.Cause(ctx), context.Cause(below))
				}
				stopBelow()
				end()
				stop(nil)
			}
		}
	}, testkit.Nodes(1))
}
