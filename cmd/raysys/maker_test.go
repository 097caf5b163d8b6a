//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

var (
	makeBytes = tasks.Define("script-make", func(_ context.Context, n int) ([]byte, error) { return make([]byte, n), nil })
	copyBytes = tasks.Define("script-copy", func(ctx context.Context, h raysys.Handle[[]byte]) ([]byte, error) {
		b, err := h.Ref().Get(ctx)
		return append([]byte(nil), b...), err
	})
	putBytes = tasks.Define("script-put", func(ctx context.Context, n int) (raysys.Handle[[]byte], error) {
		return raysys.Put(ctx, make([]byte, n)).Handle(), nil
	})
)

// maker is a user's program. As a driver it has a worker make a megabyte, copy it, and put another. The ids of the three are in the files
// made.id, copied.id and put.id. When there is a file get it reads the last two, and prints what became of them; when there is a file
// end it ends.
func maker() {
	system.Main(func(ctx context.Context) error {
		made := makeBytes.Go(ctx, 1<<20)
		copied := copyBytes.Go(ctx, made.Handle())
		put, err := putBytes.Go(ctx, 1<<20).Get(ctx)
		if err != nil {
			return err
		}
		if _, _, err := raysys.Wait(ctx, []raysys.Ref[[]byte]{copied, put.Ref()}, 2); err != nil {
			return err
		}
		for name, id := range map[string]raysys.TaskID{"made.id": made.ID(), "put.id": put.Ref().ID(), "copied.id": copied.ID()} {
			if err := os.WriteFile(name+".part", []byte(id.String()), 0o600); err != nil {
				return err
			}
			if err := os.Rename(name+".part", name); err != nil {
				return err
			}
		}
		if err := appears(ctx, "get"); err != nil {
			return err
		}
		b, err := copied.Get(ctx)
		fmt.Println("copied:", len(b), err)
		_, err = put.Ref().Get(ctx)
		fmt.Println("put: lost:", errors.Is(err, raysys.ErrObjectLost))
		mark("got")
		return appears(ctx, "end")
	})
}

// appears waits for a file.
func appears(ctx context.Context, file string) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(file); err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
