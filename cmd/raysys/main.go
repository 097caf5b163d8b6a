// Command raysys runs programs as nodes of a cluster, looks after the cluster, and shows raysys at work.
//
//	raysys node      keep a program running as a worker
//	raysys status    show nodes, shards and grains
//	raysys list      list tasks, grains, objects, placement groups, streams, schedules, and who waits for what
//	raysys get       say all that is known of a task, a value, a grain, a job, a placement group or a schedule
//	raysys stack     show the stacks of a node's goroutines
//	raysys profile   write what a node has on its heap to a file
//	raysys logs      show what the programs of nodes wrote
//	raysys timeline  record what runs on all nodes, for a trace viewer
//	raysys start     start a task as a named one
//	raysys cancel    end a job, a task or a placement group
//	raysys schedule  pause, resume, run or delete a schedule
//	raysys outbox    drop messages of a durable grain that do not arrive
//	raysys drain     empty a node and let it go
//	raysys restart   restart workers one after the other, with a new program
//	raysys doctor    look for what keeps a cluster from working
//	raysys cert      make and show the certificates of a cluster
//	raysys local     run a cluster on this host, to try things
//	raysys demo      learn CartPole, then serve the policy
//	raysys version   module version, revision, Go version
//	raysys completion SHELL   what bash, zsh, fish and PowerShell need to complete commands, flags and node names
//
// Data goes to standard output, talk to standard error. Exit codes: 0 ok, 1 the job failed, 2 usage, 3 cluster
// unreachable, 4 timed out, 5 not found, 78 the store was replaced. Every flag can be given as RAYSYS_NAME too; the flag wins. --print-config shows
// what a command would go by.
//
// Benchmarks, rounds of chaos and the simulator are in the command raysys-lab.
package main

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/cmd/internal/cli"
	"github.com/raysys/raysys/cmd/raysys/internal/client"
	"github.com/raysys/raysys/cmd/raysys/internal/supervise"
	"github.com/raysys/raysys/system"
)

func main() {
	if code, first := asFirst(os.Args); first {
		os.Exit(code)
	}
	cli.Main(run)
}

// The exit codes beside those of all commands.
const (
	exitUnreachable = 3
	exitTimedOut    = 4
	exitNotFound    = 5
)

// run is main without the process.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return runOn(ctx, onConsul(), args, stdin, stdout, stderr)
}

// runOn is run with the cluster that commands talk to.
func runOn(ctx context.Context, on cluster, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return exitCode(cli.Run(ctx, root(on), args, stdin, stdout, stderr))
}

func root(on cluster) *cobra.Command {
	cmd := cli.Root("raysys", "Tasks, grains and objects for Go programs")
	cmd.AddCommand(demoCommand(), localCommand(), nodeCommand(on), statusCommand(on), listCommand(on), getCommand(on))
	cmd.AddCommand(stackCommand(on), profileCommand(on), logsCommand(on), timelineCommand(on), startCommand(on), cancelCommand(on))
	cmd.AddCommand(scheduleCommand(on), outboxCommand(on), drainCommand(on), restartCommand(on), doctorCommand(on))
	cmd.AddCommand(certCommand())
	return cmd
}

func exitCode(err error) int {
	code := cli.ExitCode(err)
	switch {
	case code != cli.ExitFailed:
		return code
	case errors.Is(err, supervise.ErrConfig):
		return cli.ExitUsage
	case errors.Is(err, client.ErrUnreachable):
		return exitUnreachable
	case errors.Is(err, client.ErrTimedOut), errors.Is(err, supervise.ErrGrace):
		return exitTimedOut
	case errors.Is(err, client.ErrNotFound):
		return exitNotFound
	case errors.Is(err, raysys.ErrStoreReplaced):
		return system.ExitStoreReplaced
	}
	return code
}

// readByPerson reports whether w is a terminal.
func readByPerson(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && system.Terminal(f)
}
