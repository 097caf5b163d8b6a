// Command raysys runs programs as nodes of a cluster, measures raysys and shows it at work.
//
//	raysys node      keep a program running as a worker
//	raysys status    show nodes, shards and grains
//	raysys memory    show which objects are held, where, by whom and why
//	raysys drain     empty a node and let it go
//	raysys doctor    look for what keeps a cluster from working
//	raysys local     run a cluster on this host, to try things
//	raysys bench     every row beside its raw limit
//	raysys chaos     look for lost work under seeded faults
//	raysys demo      learn CartPole, then serve the policy
//	raysys version   module version, revision, Go version
//	raysys completion SHELL   what bash, zsh, fish and PowerShell need to complete commands, flags and node names
//
// Data goes to standard output, talk to standard error. Exit codes: 0 ok, 1 the job failed, 2 usage, 3 cluster
// unreachable, 4 timed out, 5 not found, 78 the store was replaced. Every flag can be given as RAYSYS_NAME too; the flag wins. --print-config shows
// what a command would go by.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/cmd/raysys/internal/chaos"
	"github.com/raysys/raysys/cmd/raysys/internal/operate"
	"github.com/raysys/raysys/cmd/raysys/internal/supervise"
	"github.com/raysys/raysys/system"
)

func main() {
	chaos.Worker()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal cancels ctx; after it the default is back, so that a second one ends the process at once.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// The exit codes.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitUnreachable = 3
	exitTimedOut    = 4
	exitNotFound    = 5
)

// usageError is a mistake in how the command was called: flags, arguments, variables.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// run is main without the process.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return runOn(ctx, onConsul(), args, stdin, stdout, stderr)
}

// runOn is run with the cluster that commands talk to.
func runOn(ctx context.Context, on cluster, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	cmd := root(on)
	cmd.SetArgs(args)
	cmd.SetIn(stdin)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	err := cmd.ExecuteContext(ctx)
	if err == nil || errors.Is(err, errPrinted) {
		return exitOK
	}
	fmt.Fprintln(stderr, "error:", err)
	return exitCode(err)
}

func exitCode(err error) int {
	var usage usageError
	switch {
	case errors.As(err, &usage), errors.Is(err, supervise.ErrConfig):
		return exitUsage
	case errors.Is(err, operate.ErrUnreachable):
		return exitUnreachable
	case errors.Is(err, operate.ErrTimedOut), errors.Is(err, supervise.ErrGrace):
		return exitTimedOut
	case errors.Is(err, operate.ErrNotFound):
		return exitNotFound
	case errors.Is(err, raysys.ErrStoreReplaced):
		return system.ExitStoreReplaced
	}
	return exitFailed
}
