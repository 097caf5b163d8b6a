// Package natsbuild builds the NATS server that tests and local clusters use, from source by the go command, at the versions
// of nats.mod and nats.sum. As in package consulbuild they are the go.mod and go.sum of a module of their own, under other
// names.
//
//	err := natsbuild.Build(ctx, "bin/nats-server", os.Stderr)
//
// To change the version, copy both into an empty folder as go.mod and go.sum, run go get there, and copy them back.
package natsbuild
