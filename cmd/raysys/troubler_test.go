//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// troubled is a grain in which much goes wrong.
type troubled struct{}

// unfit is a grain that does not come to life.
type unfit struct{}

func (*unfit) OnActivate(context.Context) error { return errors.New("no table of prices") }

var (
	unfits    = grains.Define[unfit]("script-unfit")
	unfitPing = grains.Action0(unfits, "ping", func(*unfit, context.Context) error { return nil })

	troubles    = grains.Define[troubled]("script-trouble")
	troubleHang = grains.Action(troubles, "hang", func(_ *troubled, _ context.Context, file string) error { return appears(context.Background(), file) })
	troubleFail = grains.Action(troubles, "fail", func(_ *troubled, _ context.Context, n int) error { return fmt.Errorf("row %d is torn", n) })

	hoardTask = tasks.Define("script-hoard", func(_ context.Context, n int) (int, error) { return hoard(n), nil })
	hoarded   struct {
		mu  sync.Mutex
		all []byte
	}
)

// hoard keeps n bytes in memory.
//
//go:noinline
func hoard(n int) int {
	b := make([]byte, n)
	for i := 0; i < n; i += 512 {
		b[i] = 1
	}
	hoarded.mu.Lock()
	defer hoarded.mu.Unlock()
	hoarded.all = append(hoarded.all[:0:0], b...)
	return len(hoarded.all)
}

// troubler is a user's program. As a driver it makes the trouble that its first argument names.
func troubler() {
	system.Main(func(ctx context.Context) error {
		var calls []raysys.Ref[struct{}]
		switch os.Args[1] {
		case "unfit":
			for i := range 3 {
				calls = append(calls, unfitPing.Call(ctx, unfits.Get(fmt.Sprint("grain-", i))))
			}
		case "hang": // a turn past its deadline, and two calls that wait behind it until theirs
			for range 3 {
				calls = append(calls, troubleHang.With(raysys.Deadline(time.Second)).Call(ctx, troubles.Get("x"), os.Args[2]))
			}
		case "storm":
			for i := range 500 {
				calls = append(calls, troubleFail.Call(ctx, troubles.Get("storm"), i))
			}
		case "hoard":
			_, err := hoardTask.With(raysys.OnNode("a")).Go(ctx, 500<<20).Get(ctx)
			return err
		case "puts":
			var mine []raysys.Ref[[]byte]
			for range 20 {
				r := raysys.Put(ctx, make([]byte, 200_000), raysys.Named(os.Args[2]), raysys.Replicas(2))
				if _, err := r.Get(ctx); err != nil {
					return err
				}
				mine = append(mine, r)
			}
			if len(os.Args) > 3 {
				mark(os.Args[3])
				<-ctx.Done()
			}
			fmt.Println(len(mine))
			return nil
		}
		failed := 0
		for _, r := range calls {
			if _, err := r.Get(ctx); err != nil {
				failed++
			}
		}
		fmt.Println("failed:", failed)
		return nil
	})
}
