package embedded_test

import (
	"testing"
	"time"

	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/store/embedded"
	"github.com/raysys/raysys/store/storetest"
)

func open(t testing.TB, cfg embedded.Config) *embedded.Store {
	t.Helper()
	s, err := embedded.Open(cfg)
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

func conform(t *testing.T, dir func(t *testing.T) string) {
	storetest.Run(t, func(t *testing.T) storetest.Backend {
		s := open(t, embedded.Config{Dir: dir(t)})
		return storetest.Backend{
			Open: func(*testing.T) store.KV { return s },
			TTL:  3 * time.Second,
			Gone: 20 * time.Second,
		}
	})
}

func TestConformanceInMemory(t *testing.T) { conform(t, func(*testing.T) string { return "" }) }

func TestConformanceOnDisk(t *testing.T) {
	conform(t, func(t *testing.T) string { return t.TempDir() })
}
