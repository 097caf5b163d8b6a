package feed_test

import (
	"context"
	"fmt"

	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/grains/feed"
	"github.com/raysys/raysys/system"
)

// A Kitchen is a room to talk in, which others watch.
type Kitchen struct{ Lines feed.Feed[string] }

// Say emits a line.
func (k *Kitchen) Say(_ context.Context, line string) error { return k.Lines.Emit(line) }

var (
	kitchens = grains.Define[Kitchen]("example.kitchen")
	say      = grains.Action(kitchens, "say", (*Kitchen).Say)
	hear     = feed.Method(kitchens, "hear", func(k *Kitchen) *feed.Feed[string] { return &k.Lines })
)

// A watcher hears the last line that was said before it came, and those that are said while it watches.
func Example() {
	err := system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		north := kitchens.Get("north")
		for _, line := range []string{"hello", "who is there?"} {
			if _, err := say.Call(ctx, north, line).Get(ctx); err != nil {
				return err
			}
		}
		for line, err := range hear.All(ctx, north, feed.Last(1)) {
			if err != nil {
				return err
			}
			fmt.Println(line)
			if line == "it is me" {
				break
			}
			say.Call(ctx, north, "it is me")
		}
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// who is there?
	// it is me
}
