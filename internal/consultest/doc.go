// Package consultest runs a real Consul server for a test: on ports of its own, in memory or on disk, with ACLs when
// asked, and with everything that can happen to a server: stop, start again, SIGSTOP, SIGKILL.
//
//	s := consultest.Start(t, consultest.Options{})
//	cfg := consul.Config{Addresses: []string{s.Address()}, Prefix: "raysys/test/", Token: s.Token()}
//
// The binary is RAYSYS_TEST_CONSUL, or bin/consul of the checkout, which is built when it is not there. A test that
// asks for a server fails when it cannot have one; it is never skipped.
package consultest
