package tasks_test

import (
	"context"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/tasks"
)

// TestAllocations holds what the common verbs allocate, so that what makes them compile faster does not make them slower.
func TestAllocations(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	table := raysys.NewTable()
	one := tasks.DefineIn(table, "one", func(_ context.Context, x int) (int, error) { return x, nil })
	text := tasks.DefineIn(table, "text", func(_ context.Context, x string) (string, error) { return x, nil })
	kind := grains.DefineIn[struct{}](table, "kind")
	call := grains.Method(kind, "call", func(_ *struct{}, _ context.Context, x int) (int, error) { return x, nil })
	_, ctx := nodetest.Node(t, table, 1)
	g := kind.Get("x")
	get := func(r raysys.Ref[int]) {
		if _, err := r.Get(ctx); err != nil {
			t.Fatal(err)
		}
	}
	ready := raysys.Put(ctx, 7)
	list := make([]int, 100)
	for name, c := range map[string]struct {
		most float64
		f    func()
	}{
		"Go and Get":           {1, func() { get(one.Go(ctx, 1)) }},
		"Go and Get of a text": {1, func() { text.Go(ctx, "x").Get(ctx) }},
		"Call and Get":         {2, func() { get(call.Call(ctx, g, 1)) }},
		"On and Get":           {9, func() { get(one.On(ctx, ready)) }},
		"Map of 100":           {6, func() { raysys.GetAll(ctx, one.Map(ctx, list)) }},
		"Put and Get":          {1, func() { get(raysys.Put(ctx, 1)) }},
		"Get":                  {0, func() { get(ready) }},
		"Wait":                 {1, func() { raysys.Wait(ctx, []raysys.Ref[int]{ready}, 1) }},
	} {
		if n := testing.AllocsPerRun(500, c.f); n > c.most {
			t.Errorf("%s allocates %v times, %v are allowed", name, n, c.most)
		} else {
			t.Log(name, n)
		}
	}
}
