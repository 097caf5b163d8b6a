package system

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/backoff"
	"github.com/raysys/raysys/internal/node"
	"github.com/raysys/raysys/internal/nodelog"
	"github.com/raysys/raysys/internal/printable"
	"github.com/raysys/raysys/internal/shardlog"
)

// closeGrace is how long a program waits at its end for work that still runs, and for the next of its grains to be deactivated.
const closeGrace = 10 * time.Second

// defaultGrace is Config.Grace unless set.
const defaultGrace = 5 * time.Minute

// defaultRebalance is Config.Rebalance unless set.
const defaultRebalance = 30 * time.Second

// Main makes the program a node and runs f as its driver, then exits: with 0, or with 1 and the error on standard
// error when f failed, or with 2 when a variable is invalid (see ExitCode). Variables alone, RAYSYS_*, configure the
// node (see FromEnv).
//
// Main parses the command line for a program that has defined flags with package flag and has not called flag.Parse:
// f reads their values. A program without such flags has os.Args to itself. One that reads os.Args otherwise, and links
// a package that defines flags, calls flag.CommandLine.Parse(nil) first: then Main parses nothing.
//
// Without RAYSYS_CONSUL everything runs in this process. With it the node joins a cluster, as a driver unless
// RAYSYS_ROLE says otherwise. A worker does not run f: it serves until it is asked to leave, by SIGTERM or by `raysys
// drain`, and then drains and exits with 0. A worker whose lease was lost joins again as a new incarnation.
//
// A driver prints one line to standard error that says where its work runs, unless RAYSYS_LOG is error.
//
// SIGINT and SIGTERM cancel f's context, with a cause that names the signal; a second one exits at once.
func Main(f func(ctx context.Context) error) {
	parseFlags()
	os.Exit(run(f, os.Stderr))
}

// parseFlags parses the flags of a program that has some and has not parsed them. In a binary of tests package testing
// does that, and libraries have flags there which programs do not have.
func parseFlags() {
	has := false
	flag.VisitAll(func(*flag.Flag) { has = true })
	if has && !flag.Parsed() && flag.Lookup("test.v") == nil {
		flag.Parse()
	}
}

func run(f func(ctx context.Context) error, stderr io.Writer) int {
	cfg, err := FromEnv()
	if err == nil {
		ctx, stop := signals(context.Background())
		defer stop()
		err = Run(ctx, cfg, func(ctx context.Context) error {
			if cfg.Logger.Core().Enabled(zap.WarnLevel) {
				n := NodeOf(ctx)
				fmt.Fprintln(stderr, node.Whereabouts(n.cluster, n.Resources().CPU))
			}
			return f(ctx)
		})
	} else {
		err = refused(supervisorOf(os.Getenv("RAYSYS_SUPERVISOR")), err)
	}
	if err != nil {
		fmt.Fprintln(stderr, "error:", printable.Behind(err.Error()))
		if stack := raysys.Stack(err); stack != nil {
			fmt.Fprintf(stderr, "\n%s\n", strings.Join(printable.Lines(nodelog.Folded(string(stack))), "\n"))
		}
	}
	return ExitCode(err)
}

// ExitStoreReplaced is the exit code of a program that found another store than the one it began on. Its supervisor,
// such as raysys node, must not start it again by itself: it would begin anew on the empty store.
const ExitStoreReplaced = 78

// ExitCode is what Main exits with for an error of Run: 0 for none, 2 for ErrConfig, 3 for ErrNotJoined,
// ExitStoreReplaced for raysys.ErrStoreReplaced, else 1.
func ExitCode(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, ErrConfig):
		return 2
	case errors.Is(err, ErrNotJoined):
		return 3
	case errors.Is(err, raysys.ErrStoreReplaced):
		return ExitStoreReplaced
	}
	return 1
}

// ErrConfig: the node was not made, because its Config is invalid.
var ErrConfig = node.ErrConfig

// ErrNotJoined: the node gave up joining its cluster, because the store could not be reached within Cluster.JoinTimeout.
var ErrNotJoined = node.ErrNotJoined

// refused tells the supervisor not to start the program again as it is, and makes the error match ErrConfig. The exit
// code does not suffice: a panic ends a program with the same code.
func refused(to io.Writer, err error) error {
	if to != nil {
		_, _ = fmt.Fprintln(to, node.ToldMisconfigured) // a supervisor that is gone starts nothing again
	}
	return node.Refused(err)
}

// supervisor is nil where there is none.
func (cfg *Config) supervisor() io.Writer {
	if cfg.Cluster == nil {
		return nil
	}
	return cfg.Cluster.Supervisor
}

// Run is Main for programs with flags, signals and exit codes of their own: it makes a node, runs f as its driver,
// closes the node and returns f's error. f's context ends when the node does (it was fenced, say), and context.Cause
// says why. A worker does not run f: it serves until ctx ends or an operator asks it to leave, and drains. The error
// matches ErrConfig when New refused cfg, or the members of the cluster have other settings.
func Run(ctx context.Context, cfg Config, f func(ctx context.Context) error) error {
	back := rejoin{backoff.Doubling{Draw: rand.Float64}}
	for {
		n, err := New(cfg)
		if err != nil {
			return refused(cfg.supervisor(), err)
		}
		again, err := n.live(ctx, f)
		if !again {
			return err
		}
		wait := back.next(n)
		n.log.Warn("the node joins again after a pause", zap.Duration("pause", wait), zap.Error(n.Err()))
		if !backoff.Wait(ctx, wait) { // the node was asked to leave, and has left already
			return nil
		}
	}
}

// rejoin is the pause before an evicted node joins again: a tenth of the lease after an incarnation that was a host.
// After each incarnation that was none, because too few hosts could reach it, the pause doubles, up to six leases. A
// random part of it is left out.
type rejoin struct{ backoff.Doubling }

func (r *rejoin) next(n *Node) time.Duration {
	ttl := n.cfg.Cluster.TTL
	if r.First, r.Longest = ttl/10, 6*ttl; n.cluster.Hosted() {
		r.Reset()
	}
	return r.Next()
}

// live runs one incarnation of the node. again is true when a worker was fenced and shall join anew.
func (n *Node) live(ctx context.Context, f func(context.Context) error) (again bool, err error) {
	drives := n.cfg.Cluster == nil || n.cfg.Cluster.Role.drives()
	if !drives {
		n.DrainRequested() // before an operator can ask
	}
	err, grace := n.Start(ctx), closeGrace
	if errors.Is(err, shardlog.ErrOtherCluster) || errors.Is(err, ErrConfig) { // the same program would be refused again
		err = refused(n.cfg.supervisor(), err)
	}
	switch {
	case err != nil:
	case drives:
		err = f(n.Context(ctx))
		if ended := n.Err(); ended != nil && errors.Is(err, context.Canceled) && !errors.Is(err, ended) {
			err = fmt.Errorf("%w: %w", ended, err) // f returned the error of its context, which does not say why
		}
	default:
		again, err = n.serve(ctx)
		grace = closeShare(n.cfg.Grace)
	}
	end, cancel := within(grace, "end")
	if drives { // else its supervisor waits no longer
		cancel()
		end, cancel = ends(n, grace)
	}
	defer cancel()
	if closed := n.Close(end); !again {
		err = errors.Join(err, closed)
	}
	return again, err
}

// serve runs a worker until ctx ends, an operator asks it to leave, or the cluster fences it.
func (n *Node) serve(ctx context.Context) (again bool, err error) {
	for {
		requested := false
		select {
		case <-ctx.Done():
		case <-n.DrainRequested():
			requested = true
		case <-n.Done():
			if errors.Is(n.Err(), raysys.ErrFenced) && !n.drain.Asked() { // else its supervisor was told that it leaves
				return true, nil
			}
			return false, n.Err()
		}
		grace, cancel := within(n.cfg.Grace-closeShare(n.cfg.Grace), "drain")
		err := n.drain.Run(grace, requested)
		cancel()
		if !errors.Is(err, ErrDrainCancelled) {
			return false, err
		}
	}
}

// closeShare is the part of a Grace that is left for Close. A node that used up all of it for the drain would be killed
// by its supervisor before it has left the cluster.
func closeShare(grace time.Duration) time.Duration { return min(grace/10, closeGrace) }

// ends returns a context for Close, which ends when no grain has been deactivated for d: a program may have any number of them.
func ends(n *Node, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(context.Background())
	live := n.grains.Live()
	go func() { // ends with ctx
		tick := time.NewTicker(d)
		defer tick.Stop()
		for ctx.Err() == nil {
			select {
			case <-tick.C:
				if now := n.grains.Live(); now < live {
					live = now
				} else {
					cancel(fmt.Errorf("it did not end within %v", d))
				}
			case <-ctx.Done():
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

func within(d time.Duration, verb string) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.Background(), d, fmt.Errorf("it did not %s within %v", verb, d))
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
