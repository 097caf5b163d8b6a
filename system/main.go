package system

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// closeGrace is how long a program waits for what still runs when it ends.
const closeGrace = 10 * time.Second

// Main makes the program a node and runs f as its driver, then exits: with 0, or with 1 and the error on standard
// error when f failed, or with 2 when the environment cannot be meant. It takes everything from RAYSYS_* variables
// (see FromEnv) and touches neither os.Args nor the flag package.
//
// SIGINT and SIGTERM cancel f's context, with a cause that names the signal; a second one exits at once.
func Main(f func(ctx context.Context) error) {
	os.Exit(run(f, os.Stderr))
}

func run(f func(ctx context.Context) error, stderr interface{ Write([]byte) (int, error) }) int {
	cfg, err := FromEnv()
	if err != nil {
		fmt.Fprintln(stderr, "error:", err)
		return 2
	}
	n, err := New(cfg)
	if err != nil {
		fmt.Fprintln(stderr, "error:", err)
		return 2
	}
	ctx, stop := signals(context.Background())
	defer stop()
	if err := n.Start(ctx); err != nil {
		fmt.Fprintln(stderr, "error:", err)
		return 1
	}
	code := 0
	if err := f(n.Context(ctx)); err != nil {
		fmt.Fprintln(stderr, "error:", err)
		code = 1
	}
	grace, cancel := context.WithTimeoutCause(context.Background(), closeGrace, errors.New("it did not end within "+closeGrace.String()))
	defer cancel()
	if err := n.Close(grace); err != nil {
		fmt.Fprintln(stderr, "error:", err)
		code = 1
	}
	return code
}

// signals returns a context that the first SIGINT or SIGTERM cancels; the second ends the process.
func signals(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	ch := make(chan os.Signal, 2)
	done := make(chan struct{}) // closed by the returned function
	signal.Notify(ch, os.Interrupt, syscall.SIGTERM)
	go func() {
		for {
			select {
			case s := <-ch:
				if ctx.Err() != nil {
					os.Exit(1)
				}
				cancel(fmt.Errorf("%w: %s", errSignal, s))
			case <-done:
				return
			}
		}
	}()
	return ctx, func() {
		signal.Stop(ch)
		close(done)
		cancel(nil)
	}
}

var errSignal = errors.New("received signal")
