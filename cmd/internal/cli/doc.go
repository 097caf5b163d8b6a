// Package cli is what the commands of this module have in common: a root that reads variables as flags and answers
// --print-config, the form of the output, usage errors and the exit codes that come from them.
//
//	func main() { cli.Main(run) }
//
//	func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
//		root := cli.Root("tool", "What it is for")
//		root.AddCommand(...)
//		return cli.ExitCode(cli.Run(ctx, root, args, stdin, stdout, stderr))
//	}
package cli
