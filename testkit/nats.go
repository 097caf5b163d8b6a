package testkit

import (
	"testing"

	"github.com/raysys/raysys/internal/natsserver"
)

// NATSOption changes the NATS servers of a test.
type NATSOption func(*natsOptions)

type natsOptions struct{ server natsserver.Options }

// NATSServers sets how many servers there are: one, unless set, or a cluster of three, whose streams may have replicas.
func NATSServers(n int) NATSOption { return func(o *natsOptions) { o.server.Servers = n } }

// NATSSyncAlways makes a server write each message through to the disk before it acknowledges it.
func NATSSyncAlways() NATSOption { return func(o *natsOptions) { o.server.SyncAlways = true } }

// NATSToken makes the servers refuse clients without this token.
func NATSToken(token string) NATSOption { return func(o *natsOptions) { o.server.Token = token } }

// NATSDir puts the data below this folder and leaves it there: on a small file system, for a test of a full disk.
func NATSDir(dir string) NATSOption { return func(o *natsOptions) { o.server.Dir = dir } }

// NATSMaxStore bounds the data of one server, in bytes.
func NATSMaxStore(bytes int64) NATSOption {
	return func(o *natsOptions) { o.server.MaxFileStore = bytes }
}

// NATSServer is one real NATS server with JetStream, or a cluster of three, on ports of its own. The servers are numbered
// from 1.
type NATSServer struct {
	t testing.TB
	n int
	s *natsserver.Server
}

// NATS starts a real NATS server with JetStream, which ends with the test. Its data is on disk, and gone after the test. The
// binary is RAYSYS_NATS_PROGRAM, bin/nats-server in the test's folder or one above it, or nats-server in PATH. When there is
// none the test fails, and says how to build one: go run github.com/raysys/raysys/testkit/nats -o bin/nats-server. With -short
// the test is skipped.
func NATS(t testing.TB, opts ...NATSOption) *NATSServer {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a NATS server: run the tests without -short")
	}
	o := natsOptions{natsserver.Options{Servers: 1}}
	for _, f := range opts {
		f(&o)
	}
	s, err := natsserver.Run(t.Context(), o.server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the logs of NATS:\n%s", s.Log())
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &NATSServer{t, o.server.Servers, s}
}

// URL has the addresses of all servers, with commas between, and the token: for RAYSYS_NATS and system.NATS. It stays the same
// over restarts.
func (n *NATSServer) URL() string { return n.s.URL() }

// Kill ends server i as SIGKILL does.
func (n *NATSServer) Kill(i int) { n.on("kill", i, n.s.Process(n.number(i)).Kill()) }

// Start starts server i, which was killed or stopped, and waits until it takes clients. In a cluster see Ready.
func (n *NATSServer) Start(i int) {
	n.t.Helper()
	i = n.number(i)
	n.on("start", i, unmarked(func() error { return n.s.Start(n.t.Context(), i) }))
}

// Ready waits until each server that runs knows who leads JetStream and its streams, which an election after a Kill takes some
// seconds for. A cluster needs two of its three servers for that.
func (n *NATSServer) Ready() {
	if err := n.s.Serving(n.t.Context()); err != nil {
		n.t.Helper()
		n.t.Fatalf("testkit: wait for NATS: %v", err)
	}
}

// number is i where there is such a server.
func (n *NATSServer) number(i int) int {
	if i < 1 || i > n.n {
		n.t.Helper()
		n.t.Fatalf("testkit: NATS server %d of %d: they are numbered from 1", i, n.n)
	}
	return i
}

func (n *NATSServer) on(what string, i int, err error) {
	if err != nil {
		n.t.Helper()
		n.t.Fatalf("testkit: %s NATS server %d: %v", what, i, err)
	}
}
