package childserver

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
)

// Module is the source of a server: the go.mod and go.sum of a module that has nothing else in it, so that nothing of the
// server is among the dependencies of raysys.
type Module struct {
	Name     string // of the server, for messages
	Package  string // its main package
	Mod, Sum []byte
}

// Build writes the server to path. What the go command says goes to talk. Others may build or start the same path meanwhile:
// the file appears there whole.
func (m Module) Build(ctx context.Context, path string, talk io.Writer) (err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("build %s: %w", m.Name, err)
	}
	dir, err := os.MkdirTemp("", "raysys-build-")
	if err != nil {
		return fmt.Errorf("build %s: %w", m.Name, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	part := fmt.Sprintf("%s.%d", path, os.Getpid())
	defer os.Remove(part) // it is gone when all went well
	for _, step := range []func() error{
		func() error { return os.WriteFile(filepath.Join(dir, "go.mod"), m.Mod, 0o600) },
		func() error { return os.WriteFile(filepath.Join(dir, "go.sum"), m.Sum, 0o600) },
		func() error { return os.MkdirAll(filepath.Dir(path), 0o777) },
		func() error {
			cmd := exec.CommandContext(ctx, "go", "build", "-o", part, m.Package)
			cmd.Dir, cmd.Stdout, cmd.Stderr = dir, talk, talk
			// The flags of the module that asks, such as -mod=mod, are not this one's.
			cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly")
			return cmd.Run()
		},
		func() error { return os.Rename(part, path) },
	} {
		if err := step(); err != nil {
			return fmt.Errorf("build %s: %w", m.Name, err)
		}
	}
	return nil
}

// BuildMain is the main function of the command that builds the server: its flag -o says where to put it. It returns the exit
// code.
func BuildMain(build func(ctx context.Context, path string, talk io.Writer) error, unset string) int {
	path := flag.String("o", unset, "where to put the server")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "error: %q is no flag: give -o FILE or nothing\n", flag.Arg(0))
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := build(ctx, *path, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 1
	}
	return 0
}
