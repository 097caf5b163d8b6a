package consulbuild

import (
	"context"
	_ "embed"
	"io"

	"github.com/raysys/raysys/internal/childserver"
)

//go:embed consul.mod
var module []byte

//go:embed consul.sum
var sums []byte

// Command is what a person runs to have a server, in any module that requires raysys.
const Command = "go run github.com/raysys/raysys/testkit/consul -o bin/consul"

// Build writes the server to path, as childserver.Module.Build does.
func Build(ctx context.Context, path string, talk io.Writer) error {
	return childserver.Module{Name: "Consul", Package: "github.com/hashicorp/consul", Mod: module, Sum: sums}.Build(ctx, path, talk)
}
