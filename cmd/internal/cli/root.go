package cli

import (
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Root is a command of this name, which has the command version and takes others.
func Root(name, short string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   name,
		Short: short,
		// Errors are one sentence and printed by Run; the usage text would bury it.
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return Usagef("command %q does not exist: run %s --help", args[0], name)
			}
			return nil
		},
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return prepare(cmd) },
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return Usagef("%w: run %s --help", err, cmd.CommandPath())
	})
	cmd.PersistentFlags().Bool(printFlag, false, "print every setting with its value and source, and do nothing else")
	cmd.Version = readVersion(debug.ReadBuildInfo()).Version
	cmd.SetVersionTemplate(name + " {{.Version}}\n")
	cmd.SetHelpCommand(&cobra.Command{Hidden: true})
	cmd.AddCommand(versionCommand())
	return cmd
}

// NoArgs is for commands that take flags alone.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usagef("%s takes no argument, and was given %q: run %[1]s --help", cmd.CommandPath(), args[0])
	}
	return nil
}
