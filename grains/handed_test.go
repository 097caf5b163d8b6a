package grains_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/internal/standins"
	"github.com/raysys/raysys/system"
)

// places is an inspector that notes where arguments were handed over.
type places struct {
	mu   sync.Mutex // guards list
	list []string
}

func (p *places) HandOver(place string, at any) error {
	if strings.HasPrefix(place, "argument of") {
		p.mu.Lock()
		defer p.mu.Unlock()
		_, line, _ := strings.Cut(place, "grains/handed_test.go:")
		p.list = append(p.list, line)
	}
	return nil
}

func (p *places) Lend(_ string, at any) (func(), error) { return func() {}, nil }
func (p *places) Fail(err error) error                  { return err }

// TestPlaceOfAnArgument: in strict mode an argument has the place of the program's line that makes the call, in every form,
// and in each attempt of one that is retried.
func TestPlaceOfAnArgument(t *testing.T) {
	tb := raysys.NewTable()
	k := grains.DefineIn[cell](tb, "k")
	both := grains.Method(k, "both", func(c *cell, _ context.Context, a int) (int, error) {
		if c.n++; c.n == 2 {
			return 0, errNote
		}
		return a, nil
	})
	result := grains.Method0(k, "result", func(*cell, context.Context) (int, error) { return 1, nil })
	arg := grains.Action(k, "arg", func(*cell, context.Context, int) error { return nil })
	none := grains.Action0(k, "none", func(*cell, context.Context) error { return nil })
	retried := both.Idempotent().With(raysys.RetryIf(func(error) bool { return true }), raysys.Backoff(0, time.Millisecond))
	p := &places{}
	cfg := system.Config{Table: tb}
	*standins.Inspector(&cfg) = p
	_, ctx := nodetest.Start(t, cfg)
	g := k.Get("a")
	gs := []grains.Grain[cell]{g}
	var tells [4]error
	// The calls stand one per line, so that each line's number is known.
	_, _, first, _ := runtime.Caller(0)
	refs := both.Each(ctx, gs, 1)
	again := retried.Call(ctx, g, 1)
	tells[0] = both.Tell(ctx, k.Get("b"), 1)
	result.Call(ctx, g)
	tells[1] = result.Tell(ctx, g)
	result.Each(ctx, gs)
	arg.Call(ctx, g, 1)
	tells[2] = arg.Tell(ctx, g, 1)
	arg.Each(ctx, gs, 1)
	none.Call(ctx, g)
	tells[3] = none.Tell(ctx, g)
	none.Each(ctx, gs)
	for _, err := range tells {
		if err != nil {
			t.Fatal(err)
		}
	}
	nodetest.Want(t, ctx, refs[0], 1)
	nodetest.Want(t, ctx, again, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	counts := map[string]int{}
	for _, place := range p.list {
		counts[place]++
	}
	want := map[string]int{}
	for i := range 12 {
		want[fmt.Sprint(first+1+i)] = 1
	}
	want[fmt.Sprint(first+2)] = 2 // its first attempt fails
	if diff := cmp.Diff(want, counts); diff != "" {
		t.Errorf("how often arguments were handed over in each line (-want +got):\n%s", diff)
	}
}
