// Command rolled is the program of TestRestart: its builds differ by tags. As a driver it works until there is a file stop, and says
// what came of it.
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

// Purse counts calls, each of which counts once.
type Purse struct{ Total grains.State[total] }

func (p *Purse) add(_ context.Context, n int) (int, error) {
	p.Total.Value.N += n
	return p.Total.Value.N, nil
}

// Board keeps the highest number that was written on it, and how many were.
type Board struct{ Last grains.State[[2]int] }

func (b *Board) write(ctx context.Context, n int) (int, error) {
	if v := &b.Last.Value; n > v[0] {
		v[0], v[1] = n, v[1]+1
	}
	return b.Last.Value[1], b.Last.Write(ctx)
}

var (
	purses = grains.Define[Purse]("purse", grains.Durable())
	add    = grains.Method(purses, "add", (*Purse).add)
	boards = grains.Define[Board]("board")
	write  = grains.Method(boards, "write", (*Board).write).Idempotent()

	beat = tasks.Define("beat", func(ctx context.Context, key string) (string, error) {
		logger := raysys.Logger(ctx)
		logger.Info("the job begins", "attempt", raysys.Attempt(ctx))
		for {
			if n, err := add.Call(ctx, purses.Get(key), 0).Get(ctx); err != nil || n > 0 {
				return fmt.Sprintf("rang %d times", n), err
			}
			if err := pause(ctx, 20*time.Millisecond); err != nil {
				return "", err
			}
		}
	})
)

// deaf runs on, whatever becomes of its context, until there is a file go.
var deaf = tasks.Define("deaf", func(ctx context.Context, _ int) (int, error) {
	fmt.Println("deaf, attempt", raysys.Attempt(ctx))
	for {
		if _, err := os.Stat("go"); err == nil {
			return raysys.Attempt(ctx), nil
		}
		_ = pause(context.Background(), 20*time.Millisecond)
	}
})

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func main() { system.Main(drive) }

func drive(ctx context.Context) error {
	run := os.Args[1]
	if run == "deaf" {
		n, err := deaf.With(raysys.OnNode(raysys.NodeID(os.Args[2])), raysys.WaitForResources()).Go(ctx, 0).Get(ctx)
		fmt.Println("the deaf one came to its end in attempt", n)
		return err
	}
	var job raysys.Ref[string]
	nightly := len(os.Args) < 3
	if nightly {
		job = beat.With(raysys.Detached("nightly"+run)).Go(ctx, "bell"+run)
	}
	var mu sync.Mutex
	var errs []error
	made, longest := map[string]int{}, map[string]time.Duration{}
	var all sync.WaitGroup
	loop := func(kind string, one func(n int) error) {
		all.Go(func() {
			for n := 1; ; n++ {
				if _, err := os.Stat("stop"); err == nil {
					return
				}
				begun := time.Now()
				err := one(n)
				mu.Lock()
				if made[kind]++; err != nil {
					errs = append(errs, fmt.Errorf("%s %d after %v: %w", kind, n, time.Since(begun), err))
				}
				longest[kind] = max(longest[kind], time.Since(begun))
				mu.Unlock()
				_ = pause(ctx, 5*time.Millisecond)
			}
		})
	}
	for i := range 4 {
		key, sum := fmt.Sprint(run, "-", i), 0
		loop("durable", func(n int) error {
			got, err := add.Call(ctx, purses.Get(key), 1).Get(ctx)
			if err == nil && got != n {
				err = fmt.Errorf("the purse has %d after %d calls", got, n)
			}
			return err
		})
		loop("idempotent", func(n int) error {
			got, err := write.Call(ctx, boards.Get(key), n).Get(ctx)
			if err == nil && got != n {
				err = fmt.Errorf("the board has %d after %d calls", got, n)
			}
			return err
		})
		loop("task", func(n int) error {
			got, err := square.Go(ctx, n).Get(ctx)
			if sum += n * n; err == nil && int(got) != n*n {
				err = fmt.Errorf("the square is %d", got)
			}
			return err
		})
	}
	fmt.Println("works")
	all.Wait()
	rang, err, err2 := "none", error(nil), error(nil)
	if nightly {
		_, err = add.Call(ctx, purses.Get("bell"+run), 1).Get(ctx)
		rang, err2 = job.Get(ctx)
	}
	fmt.Printf("%v failed %d, the longest took %v, job: %s\n", made, len(errs), longest, rang)
	return errors.Join(append(errs, err, err2)...)
}
