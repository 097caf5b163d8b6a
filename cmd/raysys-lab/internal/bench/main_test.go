package bench

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/raysys/raysys/internal/consulserver"
	"github.com/raysys/raysys/internal/consultest"
)

// TestMain lets the test binary be the child of the rows that start processes.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == ChildCommand {
		if err := Child(context.Background(), Plan{}, os.Args[2:], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(withServer{m})
}

// server is the Consul server that the tests share; the first that asks starts it.
var server = sync.OnceValues(func() (*consulserver.Server, error) {
	serving.Store(true)
	return consulserver.Run(context.Background(), consulserver.Options{Disk: true})
})

// serving says that server was called.
var serving atomic.Bool

// withServer closes the server when the tests are through.
type withServer struct{ tests *testing.M }

func (w withServer) Run() int {
	code := w.tests.Run()
	if !serving.Load() {
		return code
	}
	if c, err := server(); err == nil {
		if err := c.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "close Consul:", err)
			return 1
		}
	}
	return code
}

// clustered is small on the shared server.
func clustered(t testing.TB) Plan {
	t.Helper()
	consultest.Needed(t)
	c, err := server()
	if err != nil {
		t.Fatal(err)
	}
	p := small
	p.Consul = c.Address()
	return p
}
