package grains_test

import (
	"context"
	"fmt"

	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
)

// Stored reads what is stored of many grains, and wakes none of them.
func ExampleStored() {
	err := system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		for _, key := range []string{"eu/ann", "eu/bob", "us/cid"} {
			if _, err := basketAdd.Call(ctx, baskets.Get(key), "pear").Get(ctx); err != nil {
				return err
			}
		}
		lines := 0
		for s, err := range grains.Stored(ctx, baskets, "eu/") {
			if err != nil {
				return err // a program may also note s.Key, and go on
			}
			lines += s.State.lines.Len()
		}
		fmt.Println(lines, "lines of eu/")
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// 2 lines of eu/
}
