//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/raysys/raysys/schedule"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// stamp writes to a file which schedule has it run.
var stamp = tasks.Define("script-stamp", func(ctx context.Context, file string) (int, error) {
	f, ok := schedule.Fired(ctx)
	return 0, os.WriteFile(file, fmt.Appendf(nil, "%s %v\n", f.Name, ok), 0o600)
})

// timekeeper is a user's program. As a driver it sets schedules, each by its name and how often it is due, which write to the file of its first argument.
func timekeeper() {
	system.Main(func(ctx context.Context) error {
		for rest := os.Args[2:]; len(rest) > 1; rest = rest[2:] {
			every, err := time.ParseDuration(rest[1])
			if err != nil {
				return err
			}
			if err := schedule.Task(ctx, rest[0], schedule.Every(every), stamp, os.Args[1]); err != nil {
				return err
			}
		}
		return nil
	})
}
