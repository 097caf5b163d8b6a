package natsbuild

import (
	"context"
	_ "embed"
	"io"

	"github.com/raysys/raysys/internal/childserver"
)

//go:embed nats.mod
var module []byte

//go:embed nats.sum
var sums []byte

// Command is what a person runs to have a server, in any module that requires raysys.
const Command = "go run github.com/raysys/raysys/testkit/nats -o bin/nats-server"

// Build writes the server to path, as childserver.Module.Build does.
func Build(ctx context.Context, path string, talk io.Writer) error {
	return childserver.Module{Name: "NATS", Package: "github.com/nats-io/nats-server/v2", Mod: module, Sum: sums}.Build(ctx, path, talk)
}
