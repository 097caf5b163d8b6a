// Package consultest runs a real Consul server for a test (package consulserver): on ports of its own, in memory or on
// disk, with ACLs when asked, and with everything that can happen to a server: stop, start again, SIGSTOP, SIGKILL.
//
//	s := consultest.Start(t, consulserver.Options{})
//	cfg := consul.Config{Addresses: []string{s.Address()}, Prefix: "raysys/test/", Token: s.Token()}
//
// The binary is RAYSYS_CONSUL_PROGRAM, or bin/consul of the test's folder or one above it, or consul in PATH. A test that
// asks for a server fails when it cannot have one. It is skipped only with -short.
package consultest
