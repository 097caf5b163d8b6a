package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// The exit codes of all commands. A command may have more.
const (
	ExitOK     = 0
	ExitFailed = 1
	ExitUsage  = 2
)

// UsageError is a mistake in how the command was called: flags, arguments, variables.
type UsageError struct{ error }

// Usage makes err a UsageError.
func Usage(err error) error { return UsageError{err} }

// Usagef is fmt.Errorf for a UsageError.
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// Unwrap returns what the mistake is.
func (e UsageError) Unwrap() error { return e.error }

// ExitCode is the code that err ends the process with.
func ExitCode(err error) int {
	var usage UsageError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &usage):
		return ExitUsage
	}
	return ExitFailed
}

// Main runs a command as the process and ends it. The first signal cancels the context.
func Main(run func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal cancels ctx; after it the default is back, so that a second one ends the process at once.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// Run executes cmd, and says on stderr why it failed.
func Run(ctx context.Context, cmd *cobra.Command, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	cmd.SetArgs(args)
	cmd.SetIn(stdin)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	err := cmd.ExecuteContext(ctx)
	if err == nil || errors.Is(err, errPrinted) {
		return nil
	}
	fmt.Fprintln(stderr, "error:", text(err))
	return err
}
