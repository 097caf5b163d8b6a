package raysys_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/tasks"
)

var errBoom = errors.New("boom")

// State tells every state apart without fetching, and agrees with Get.
func TestStates(t *testing.T) {
	table := raysys.NewTable()
	gate, open := gated(table)
	gate = gate.With(raysys.CPU(0))
	fail := tasks.Define0In(table, "fail", func(context.Context) (int, error) { return 0, errBoom })
	lost := tasks.Define0In(table, "lost", func(context.Context) (int, error) { return 0, raysys.ErrObjectLost })
	one := echo(table)
	_, ctx := node(t, table)
	cancelled := gate.Go(ctx, 1)
	cancelled.Cancel()
	released := raysys.Put(ctx, 1)
	released.Release()
	pending := gate.Go(ctx, 1)
	early := gate.Go(ctx, 1)
	early.Release()
	failed := fail.Go(ctx)
	done := one.Go(ctx, 1)
	nodetest.Get(t, ctx, failed)
	nodetest.Get(t, ctx, done)
	through := lost.Go(ctx)
	nodetest.Get(t, ctx, through)
	for name, c := range map[string]struct {
		ref   raysys.Ref[int]
		state raysys.Phase
		err   error
	}{
		"pending":                {pending, raysys.PhasePending, nil},
		"ready":                  {done, raysys.PhaseReady, nil},
		"put":                    {raysys.Put(ctx, 1), raysys.PhaseReady, nil},
		"value":                  {raysys.Ready(1), raysys.PhaseReady, nil},
		"failed":                 {failed, raysys.PhaseFailed, errBoom},
		"cancelled":              {cancelled, raysys.PhaseCancelled, raysys.ErrCancelled},
		"released":               {released, raysys.PhaseReleased, raysys.ErrReleased},
		"released while pending": {early, raysys.PhaseReleased, raysys.ErrReleased},
		"lost":                   {raysys.Ref[int](core.FailedRef[int](fmt.Errorf("get: %w", raysys.ErrObjectLost))), raysys.PhaseLost, raysys.ErrObjectLost},
		"lost, says the task":    {through, raysys.PhaseFailed, raysys.ErrObjectLost},
		"failed before it began": {raysys.Ref[int](core.FailedRef[int](errBoom)), raysys.PhaseFailed, errBoom},
		"zero":                   {raysys.Ref[int]{}, raysys.PhasePending, raysys.ErrInvalidRef},
	} {
		if s := raysys.PhaseOf(c.ref); s != c.state {
			t.Errorf("%s: %v, want %v", name, s, c.state)
		}
		if name == "pending" {
			continue
		}
		if _, err := c.ref.Get(ctx); !errors.Is(err, c.err) {
			t.Errorf("%s: Get gives %v, want %v", name, err, c.err)
		}
		if text := c.ref.String(); !strings.Contains(text, c.state.String()) {
			t.Errorf("%s: String is %q", name, text)
		}
	}
	close(open)
	if v, err := nodetest.Get(t, ctx, pending); v != 1 || err != nil {
		t.Errorf("got %d, %v", v, err)
	}
	if _, err := nodetest.Get(t, ctx, early); !errors.Is(err, raysys.ErrReleased) {
		t.Errorf("released while pending, now settled: %v, want ErrReleased", err)
	}
	for s, text := range []string{"pending", "ready", "failed", "lost", "cancelled", "released", "Phase(6)"} {
		if got := raysys.Phase(s).String(); got != text {
			t.Errorf("Phase %d is %q, want %q", s, got, text)
		}
	}
}

// Every verb says the same of a context that comes from no runtime, and what to do.
func TestNoRuntime(t *testing.T) {
	table := raysys.NewTable()
	one := echo(table)
	_, good := node(t, table)
	ref := raysys.Put(good, 1)
	for name, ctx := range map[string]context.Context{"background": context.Background(), "nil": nil} {
		yields := 0
		for range raysys.AsCompleted(ctx, []raysys.Ref[int]{ref}) {
			yields++
		}
		if yields != 0 {
			t.Errorf("%s: AsCompleted yields", name)
		}
		_, getErr := ref.Get(ctx)
		_, goErr := one.Go(ctx, 1).Get(good)
		_, onErr := one.On(ctx, ref).Get(good)
		_, mapErr := one.Map(ctx, []int{1})[0].Get(good)
		_, putErr := raysys.Put(ctx, 1).Get(good)
		_, _, waitErr := raysys.Wait(ctx, []raysys.Ref[int]{ref}, 1)
		allErr := raysys.GetAll(ctx, []raysys.Ref[int]{ref})[0].Err
		for verb, err := range map[string]error{
			"Get": getErr, "Go": goErr, "On": onErr, "Map": mapErr, "Put": putErr, "Wait": waitErr, "GetAll": allErr,
		} {
			if !errors.Is(err, raysys.ErrNoRuntime) || !strings.Contains(err.Error(), "Node.Context") {
				t.Errorf("%s, %s: %v; want ErrNoRuntime that says which ctx to pass", name, verb, err)
			}
		}
	}
}

// Outcomes keep the order of the refs, and one failure hides no value.
func TestGetAll(t *testing.T) {
	table := raysys.NewTable()
	gate, open := gated(table)
	_, ctx := node(t, table)
	refs := []raysys.Ref[int]{raysys.Put(ctx, 1), raysys.Ref[int](core.FailedRef[int](errBoom)), gate.Go(ctx, 3), {}}
	sub, cancel := context.WithCancel(ctx)
	cancel()
	os := raysys.GetAll(sub, refs)
	for i, want := range []error{nil, errBoom, raysys.ErrCancelled, raysys.ErrInvalidRef} {
		if !errors.Is(os[i].Err, want) {
			t.Errorf("outcome %d: %v, want %v", i, os[i].Err, want)
		}
	}
	if _, err := os.Values(); !errors.Is(err, errBoom) || !strings.Contains(err.Error(), "outcome 1 of 4") {
		t.Errorf("Values: %v; want the first error and its place", err)
	}
	close(open)
	vs, err := raysys.GetAll(ctx, []raysys.Ref[int]{refs[0], refs[2]}).Values()
	if err != nil || len(vs) != 2 || vs[0] != 1 || vs[1] != 3 {
		t.Errorf("Values: %v, %v", vs, err)
	}
	if os := raysys.GetAll(ctx, []raysys.Ref[int]{}); len(os) != 0 {
		t.Errorf("GetAll of nothing: %v", os)
	}
}

// A reference is one word of a record: what it is turned into and back is the same.
func TestHandleAndFuture(t *testing.T) {
	_, ctx := node(t, raysys.NewTable())
	r := raysys.Put(ctx, 1)
	if r.Handle().Ref() != r || r.IsZero() || !(raysys.Ref[int]{}).IsZero() {
		t.Error("a Handle does not give its Ref back")
	}
	var back raysys.Ref[int]
	if err := core.SetRefFuture((*core.Ref[int])(&back), core.FutureOf(r.Link)); err != nil || back != r {
		t.Errorf("SetRefFuture: %v, %v", back, err)
	}
	var wrong raysys.Ref[string]
	if err := core.SetRefFuture((*core.Ref[string])(&wrong), core.FutureOf(r.Link)); !errors.Is(err, raysys.ErrInvalidRef) {
		t.Errorf("SetRefFuture of another type: %v, want ErrInvalidRef", err)
	}
	if err := core.SetRefFuture((*core.Ref[int])(&back), nil); err != nil || !back.IsZero() {
		t.Errorf("SetRefFuture of nothing: %v, %v", back, err)
	}
	if !raysys.Ready(1).ID().IsZero() || r.ID().IsZero() || !(raysys.Ref[int]{}).ID().IsZero() {
		t.Error("an object of Put has an id, a Ready value and the zero Ref have none")
	}
}
