// Package consulbuild builds the Consul server that tests and local clusters use, from source by the go command, at the
// versions of consul.mod and consul.sum. They are the go.mod and go.sum of a module of their own, so that nothing of
// Consul's server is among the dependencies of raysys, and they have other names so that they are files of this module: a
// module that requires raysys has them too.
//
//	err := consulbuild.Build(ctx, "bin/consul", os.Stderr)
//
// To change the version, copy both into an empty folder as go.mod and go.sum, run go get there, and copy them back.
package consulbuild
