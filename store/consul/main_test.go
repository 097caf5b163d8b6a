package consul_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/raysys/raysys/internal/consulserver"
)

// Servers that tests of this package share: most need an empty prefix only.
var (
	inMemory = server(consulserver.Options{MinTTL: shortTTL})
	onDisk   = server(consulserver.Options{MinTTL: shortTTL, Disk: true})
)

// shortTTL keeps tests of expiry short; one test uses Consul's own minimum.
const shortTTL = 2 * time.Second

var running struct {
	sync.Mutex
	servers []*consulserver.Server
}

func server(o consulserver.Options) func() (*consulserver.Server, error) {
	return sync.OnceValues(func() (*consulserver.Server, error) {
		s, err := consulserver.Run(context.Background(), o)
		if err == nil {
			running.Lock()
			defer running.Unlock()
			running.servers = append(running.servers, s)
		}
		return s, err
	})
}

func TestMain(m *testing.M) {
	// The tests wait for sessions to end and for servers to start, so more of them run together than there are processors.
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	code := m.Run()
	for _, s := range running.servers {
		if code != 0 {
			fmt.Fprintf(os.Stderr, "the end of Consul's log:\n%s\n", s.Log())
		}
		if err := s.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
