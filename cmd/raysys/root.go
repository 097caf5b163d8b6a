package main

import (
	"runtime/debug"

	"github.com/spf13/cobra"
)

func root(on cluster) *cobra.Command {
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
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return prepare(cmd) },
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%w: run %s --help", err, cmd.CommandPath())
	})
	cmd.PersistentFlags().Bool(printFlag, false, "print every setting with its value and source, and do nothing else")
	cmd.Version = readVersion(debug.ReadBuildInfo()).Version
	cmd.SetVersionTemplate("raysys {{.Version}}\n")
	cmd.SetHelpCommand(&cobra.Command{Hidden: true})
	cmd.AddCommand(benchCommand(), chaosCommand(), chaosRoundCommand(), childCommand(), demoCommand(), localCommand(), nodeCommand(on), simulateCommand(), versionCommand(), statusCommand(on), groupsCommand(on), memoryCommand(on), whyCommand(on), explainCommand(on), drainCommand(on), doctorCommand(on))
	return cmd
}

// noArgs is for commands that take flags alone.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no argument, and was given %q: run %[1]s --help", cmd.CommandPath(), args[0])
	}
	return nil
}
