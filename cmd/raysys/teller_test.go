//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// tellTask writes what it is given, as its first word says.
var tellTask = tasks.Define("script-tell", func(ctx context.Context, in [2]string) (string, error) {
	how, what := in[0], in[1]
	switch how {
	case "log":
		raysys.Logger(ctx).Info(what, "round", 1)
	case "print":
		fmt.Println(what)
	case "flood":
		n, err := strconv.Atoi(what)
		for i := range n {
			raysys.Logger(ctx).Info(fmt.Sprintf("line %d of a flood", i))
		}
		return what, err
	case "die":
		fmt.Println(what)
		fmt.Fprintln(os.Stderr, "panic: "+what)
		os.Exit(3)
	case "hold": // until the file is there
		raysys.Logger(ctx).Warn("holds", "file", what)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			if _, err := os.Stat(what); err == nil {
				break
			}
			<-tick.C
		}
	}
	return string(system.NodeOf(ctx).Name()), nil
}).With(raysys.Retries(0))

type tellerGrain struct{}

var (
	tellers    = grains.Define[tellerGrain]("script-teller")
	tellMethod = grains.Method(tellers, "tell", (*tellerGrain).Tell)
)

// Tell writes a line.
func (*tellerGrain) Tell(ctx context.Context, what string) (string, error) {
	raysys.Logger(ctx).Info(what)
	return "", nil
}

// teller is a user's program. As a driver it makes a call for each pair of arguments, HOW WHAT, on all nodes at the same time where HOW begins
// with all-, and prints the results.
func teller() {
	system.Main(func(ctx context.Context) error {
		for i := 1; i+1 < len(os.Args); i += 2 {
			if os.Args[i] == "grain" {
				if _, err := tellMethod.Call(ctx, tellers.Get("key"), os.Args[i+1]).Get(ctx); err != nil {
					return err
				}
				continue
			}
			var told []raysys.Ref[string]
			how, everywhere := strings.CutPrefix(os.Args[i], "all-")
			members, _ := system.NodeOf(ctx).Members()
			for _, m := range members {
				if everywhere && m.Role == system.Worker {
					told = append(told, tellTask.With(raysys.OnNode(m.Name)).Go(ctx, [2]string{how, os.Args[i+1]}))
				}
			}
			if !everywhere {
				told = append(told, tellTask.Go(ctx, [2]string{how, os.Args[i+1]}))
			}
			for _, r := range told {
				on, err := r.Get(ctx)
				fmt.Println(on, err != nil)
			}
		}
		return nil
	})
}
