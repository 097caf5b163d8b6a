package system

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/raysys/raysys"
)

// closeGrace is how long a program waits for what still runs when it ends.
const closeGrace = 10 * time.Second

// drainGrace is how long a worker that is asked to leave waits for what still runs.
const drainGrace = 5 * time.Minute

// Main makes the program a node and runs f as its driver, then exits: with 0, or with 1 and the error on standard
// error when f failed, or with 2 when the environment cannot be meant. It takes everything from RAYSYS_* variables
// (see FromEnv) and touches neither os.Args nor the flag package.
//
// Without RAYSYS_CONSUL everything runs in this process. With it the node joins a cluster, as a driver unless
// RAYSYS_ROLE says otherwise. A worker does not run f: it serves until it is asked to leave, by SIGTERM or by `raysys
// drain`, and then drains and exits with 0. A worker whose lease was lost joins again as a new incarnation.
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
	ctx, stop := signals(context.Background())
	defer stop()
	for {
		n, err := New(cfg)
		if err != nil {
			fmt.Fprintln(stderr, "error:", err)
			return 2
		}
		again, code := live(ctx, n, f, stderr)
		if !again {
			return code
		}
	}
}

// live runs one incarnation of the node. again is true when a worker was fenced and shall join anew.
func live(ctx context.Context, n *Node, f func(context.Context) error, stderr interface{ Write([]byte) (int, error) }) (again bool, code int) {
	if err := n.Start(ctx); err != nil {
		fmt.Fprintln(stderr, "error:", err)
		return false, 1
	}
	say := func(err error) {
		if err != nil {
			fmt.Fprintln(stderr, "error:", err)
			code = 1
		}
	}
	if n.cfg.Cluster == nil || n.cfg.Cluster.Role.drives() {
		say(f(n.Context(ctx)))
	} else {
		again = serve(ctx, n, say)
	}
	grace, cancel := context.WithTimeoutCause(context.Background(), closeGrace, errors.New("it did not end within "+closeGrace.String()))
	defer cancel()
	if err := n.Close(grace); !again {
		say(err)
	}
	return again, code
}

// serve is a worker's life: until a signal or an operator ends it, or the cluster does.
func serve(ctx context.Context, n *Node, say func(error)) (again bool) {
	select {
	case <-ctx.Done():
	case <-n.DrainRequested():
	case <-n.Done():
		if errors.Is(n.Err(), raysys.ErrFenced) {
			return true
		}
		say(n.Err())
		return false
	}
	grace, cancel := context.WithTimeoutCause(context.Background(), drainGrace, errors.New("it did not drain within "+drainGrace.String()))
	defer cancel()
	say(n.Drain(grace))
	return false
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
