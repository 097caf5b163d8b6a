package grains_test

import (
	"context"
	"fmt"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
)

// A Watcher looks after something as long as the cluster is there, by a timer.
type Watcher struct{}

var looks = make(chan string, 3)

// OnActivate begins to look, on each node that the grain comes to.
func (w *Watcher) OnActivate(ctx context.Context) error {
	id, _ := grains.Self(ctx)
	_, err := grains.After(ctx, time.Millisecond, func(context.Context) error {
		looks <- "looks after " + id.Key
		return nil
	})
	return err
}

// Begin does nothing: the first call activates the grain.
func (w *Watcher) Begin(context.Context) error { return nil }

// One call begins it. When its node dies another node goes on, without a call.
func ExampleAlwaysOn() {
	table := raysys.NewTable()
	watchers := grains.DefineIn[Watcher](table, "watcher", grains.AlwaysOn())
	begin := grains.Action0(watchers, "begin", (*Watcher).Begin)
	n, err := system.New(system.Config{Table: table})
	if err != nil {
		panic(err)
	}
	if err := n.Start(context.Background()); err != nil {
		panic(err)
	}
	defer n.Close(context.Background())
	ctx := n.Context(context.Background())
	_, err = begin.Call(ctx, watchers.Get("north")).Get(ctx)
	fmt.Println(<-looks, err)
	// Output: looks after north <nil>
}
