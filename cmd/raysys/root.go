package main

import (
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "raysys",
		Short: "Tasks, grains and objects for Go programs",
		// Errors are one sentence and printed by run; the usage text would bury it.
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("command %q does not exist: run raysys --help", args[0])
			}
			return nil
		},
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return fromEnvironment(cmd.Flags()) },
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%w: run %s --help", err, cmd.CommandPath())
	})
	cmd.CompletionOptions.HiddenDefaultCmd = true
	cmd.SetHelpCommand(&cobra.Command{Hidden: true})
	cmd.AddCommand(benchCommand(), childCommand(), demoCommand(), versionCommand())
	return cmd
}

// noArgs is for commands that take flags alone.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no argument, and was given %q: run %[1]s --help", cmd.CommandPath(), args[0])
	}
	return nil
}

// fromEnvironment sets every flag that was not given from RAYSYS_NAME, its name in capitals, so that the flag wins
// over the variable and the variable over the default.
func fromEnvironment(flags *pflag.FlagSet) error {
	var errs []error
	flags.VisitAll(func(f *pflag.Flag) {
		name := "RAYSYS_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		v := os.Getenv(name)
		if f.Changed || v == "" || f.Name == "help" {
			return
		}
		if err := flags.Set(f.Name, v); err != nil {
			errs = append(errs, usagef("%s=%q cannot be meant for --%s: %s", name, v, f.Name, reason(err)))
		}
	})
	return errors.Join(errs...)
}

// reason is the innermost error: those around it name a flag that the user did not give.
func reason(err error) error {
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	return err
}
