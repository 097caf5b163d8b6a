package cli

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/raysys/raysys/internal/printable"
)

// version is what the binary knows of itself. Fields it does not know are empty: a program that was not built from a
// repository has no revision.
type version struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Time     string `json:"time"`     // of the revision
	Modified bool   `json:"modified"` // the tree had changes on top of the revision
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func readVersion(info *debug.BuildInfo, ok bool) version {
	v := version{Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if !ok {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	if info.GoVersion != "" {
		v.Go = info.GoVersion
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.time":
			v.Time = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

func (v version) table(w io.Writer) error {
	revision := v.Revision
	switch {
	case revision == "":
		revision = "unknown (not built from a repository)"
	case v.Modified:
		revision += ", with changes"
	}
	_, err := fmt.Fprintf(w, "version   %s\nrevision  %s\ntime      %s\ngo        %s\nplatform  %s\n",
		v.Version, revision, orUnknown(v.Time), v.Go, v.Platform)
	return err
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

func versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Say which version this is",
		Args:  NoArgs,
	}
	form := OutputFlag(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		v := readVersion(debug.ReadBuildInfo())
		if *form == JSON {
			return printable.WriteJSON(cmd.OutOrStdout(), v)
		}
		return v.table(cmd.OutOrStdout())
	}
	return cmd
}
