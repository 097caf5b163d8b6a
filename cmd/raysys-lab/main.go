// Command raysys-lab measures raysys, and looks for what is wrong with it. No node of a cluster needs it.
//
//	raysys-lab bench      every row beside its raw limit
//	raysys-lab chaos      look for lost work under seeded faults
//	raysys-lab simulate   play the scheduling of a large cluster
//	raysys-lab version    module version, revision, Go version
//
// Data goes to standard output, talk to standard error. Exit codes: 0 ok, 1 the job failed, 2 usage. Every flag can be
// given as RAYSYS_NAME too; the flag wins. --print-config shows what a command would go by.
package main

import (
	"context"
	"io"

	"github.com/raysys/raysys/cmd/internal/cli"
	"github.com/raysys/raysys/cmd/raysys-lab/internal/chaos"
)

func main() {
	chaos.Worker()
	cli.Main(run)
}

// run is main without the process.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	cmd := cli.Root("raysys-lab", "Measure raysys, and look for what is wrong with it")
	cmd.AddCommand(benchCommand(), chaosCommand(), chaosRoundCommand(), childCommand(), simulateCommand())
	return cli.ExitCode(cli.Run(ctx, cmd, args, stdin, stdout, stderr))
}
