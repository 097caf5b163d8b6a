package consul_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys/internal/consulserver"
	"github.com/raysys/raysys/internal/consultest"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/store/consul"
	"github.com/raysys/raysys/store/storetest"
)

var prefixes atomic.Int64

// prefix returns one that no other test uses.
func prefix() string { return fmt.Sprintf("raysys/test-%d/", prefixes.Add(1)) }

func open(t testing.TB, cfg consul.Config) *consul.Store {
	t.Helper()
	s, err := consul.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// up returns a shared server.
func up(t testing.TB, get func() (*consulserver.Server, error)) *consulserver.Server {
	t.Helper()
	consultest.Needed(t)
	s, err := get()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func conform(t *testing.T, server func() (*consulserver.Server, error)) {
	t.Parallel()
	address := up(t, server).Address()
	storetest.Run(t, func(*testing.T) storetest.Backend {
		cfg := consul.Config{Addresses: []string{address}, Prefix: prefix()}
		return storetest.Backend{
			Open: func(t *testing.T) store.KV { return open(t, cfg) },
			TTL:  shortTTL,
			Gone: shortTTL + 20*time.Second,
		}
	})
}

func TestConformanceInMemory(t *testing.T) { conform(t, inMemory) }

func TestConformanceOnDisk(t *testing.T) {
	long.Only(t)
	conform(t, onDisk)
}
