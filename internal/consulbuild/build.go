package consulbuild

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

//go:embed consul.mod
var module []byte

//go:embed consul.sum
var sums []byte

// Command is what a person runs to have a server, in any module that requires raysys.
const Command = "go run github.com/raysys/raysys/testkit/consul -o bin/consul"

// Build writes the server to path. What the go command says goes to talk. Others may build or start the same path meanwhile:
// the file appears there whole.
func Build(ctx context.Context, path string, talk io.Writer) (err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("build Consul: %w", err)
	}
	dir, err := os.MkdirTemp("", "raysys-consul-")
	if err != nil {
		return fmt.Errorf("build Consul: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	part := fmt.Sprintf("%s.%d", path, os.Getpid())
	defer os.Remove(part) // it is gone when all went well
	for _, step := range []func() error{
		func() error { return os.WriteFile(filepath.Join(dir, "go.mod"), module, 0o600) },
		func() error { return os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o600) },
		func() error { return os.MkdirAll(filepath.Dir(path), 0o777) },
		func() error {
			cmd := exec.CommandContext(ctx, "go", "build", "-o", part, "github.com/hashicorp/consul")
			cmd.Dir, cmd.Stdout, cmd.Stderr = dir, talk, talk
			// The flags of the module that asks, such as -mod=mod, are not this one's.
			cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly")
			return cmd.Run()
		},
		func() error { return os.Rename(part, path) },
	} {
		if err := step(); err != nil {
			return fmt.Errorf("build Consul: %w", err)
		}
	}
	return nil
}
