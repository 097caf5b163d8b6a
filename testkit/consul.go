package testkit

import (
	"testing"
	"time"

	"github.com/raysys/raysys/internal/consulserver"
	"github.com/raysys/raysys/internal/consultest"
)

// ConsulOption changes a Consul server for a test.
type ConsulOption func(*consulOptions)

type consulOptions struct{ server consulserver.Options }

// OnDisk keeps the server's data over restarts, and writes it through before it answers. Without it the server comes
// back empty.
func OnDisk() ConsulOption { return func(o *consulOptions) { o.server.Disk = true } }

// ACL makes the server deny everything to clients without a token.
func ACL() ConsulOption { return func(o *consulOptions) { o.server.ACL = true } }

// MinTTL lets sessions be as short as d, for tests that wait for their end. Consul's own least is 10 s.
func MinTTL(d time.Duration) ConsulOption { return func(o *consulOptions) { o.server.MinTTL = d } }

// ConsulServer is a real Consul server on ports of its own.
type ConsulServer struct {
	t testing.TB
	s *consulserver.Server
}

// Consul starts a real Consul server, which ends with the test. The binary is RAYSYS_CONSUL_PROGRAM, bin/consul in the
// test's folder or one above it, or consul in PATH. When there is none the test fails, and says how to build one: go
// run github.com/raysys/raysys/testkit/consul -o bin/consul. With -short the test is skipped.
func Consul(t testing.TB, opts ...ConsulOption) *ConsulServer {
	t.Helper()
	var o consulOptions
	for _, f := range opts {
		f(&o)
	}
	return &ConsulServer{t, consultest.Start(t, o.server)}
}

// Address is host:port of the server's HTTP interface, which stays the same over restarts: for RAYSYS_CONSUL and
// system.ClusterConfig.Consul.
func (c *ConsulServer) Address() string { return c.s.Address() }

// Token is a token that may do everything, empty without ACL: for CONSUL_HTTP_TOKEN.
func (c *ConsulServer) Token() string { return c.s.Token() }

// Kill ends the server as SIGKILL does.
func (c *ConsulServer) Kill() { c.must("kill", c.s.Kill()) }

// Start starts a server that was killed or stopped, and waits until it serves.
func (c *ConsulServer) Start() {
	c.t.Helper()
	c.must("start", unmarked(func() error { return c.s.Start(c.t.Context()) }))
}

func (c *ConsulServer) must(what string, err error) {
	if err != nil {
		c.t.Helper()
		c.t.Fatalf("testkit: %s Consul: %v", what, err)
	}
}
