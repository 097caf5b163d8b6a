//go:build unix

package main

import (
	"context"
	"fmt"
	"os"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/groups"
	"github.com/raysys/raysys/placement"
	"github.com/raysys/raysys/system"
)

// grouper is a user's program. As a driver it makes a group of one bundle with two CPUs that has the name of its first argument,
// and lets two tasks of two CPUs linger in it, by the files of the others.
func grouper() {
	system.Main(func(ctx context.Context) error {
		g, err := groups.Create(ctx, placement.StrictPack, []raysys.Resources{{CPU: 2}}, groups.Named(os.Args[1]))
		if err != nil {
			return err
		}
		in := linger.With(raysys.CPU(2), g.Bundle(0))
		for _, r := range []raysys.Ref[string]{in.Go(ctx, os.Args[2]), in.Go(ctx, os.Args[3])} {
			said, err := r.Get(ctx)
			if err != nil {
				return err
			}
			fmt.Println(said)
		}
		return g.Remove(ctx)
	})
}

// namer is a user's program. As a driver it gives the name of its first argument to a group and to a detached task, which lingers by the file of the second,
// and waits for that.
func namer() {
	system.Main(func(ctx context.Context) error {
		if _, err := groups.Create(ctx, placement.StrictPack, []raysys.Resources{{CPU: 1}}, groups.Named(os.Args[1]), groups.Detached()); err != nil {
			return err
		}
		_, err := linger.With(raysys.Detached(os.Args[1])).Go(ctx, os.Args[2]).Get(ctx)
		return err
	})
}
