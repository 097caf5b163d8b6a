package system_test

import (
	"context"
	"testing"

	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/system"
)

// clinging is a store that takes its time to end a session.
type clinging struct {
	store.KV
	ending, end chan struct{}
}

// Destroy implements store.KV.
func (k *clinging) Destroy(ctx context.Context, session string) error {
	close(k.ending)
	select {
	case <-k.end:
	case <-ctx.Done():
	}
	return k.KV.Destroy(ctx, session)
}

// TestLeavingIsQuiet: a node that waits for the store to let it go does not look after its duties again and again because
// its last view says for ever that it changed.
func TestLeavingIsQuiet(t *testing.T) {
	f := newFleet(t)
	slow := &clinging{KV: f.kv, ending: make(chan struct{}), end: make(chan struct{})}
	n, _ := f.join("w", system.Worker, func(c *system.Config) { c.Cluster.Store = slow })
	ctx := t.Context()
	closed := make(chan error)
	go func() { closed <- n.Close(ctx) }()
	<-slow.ending
	before := system.Looks(n)
	f.join("other", system.Worker) // which takes as long as a thousand looks
	after := system.Looks(n)
	close(slow.end)
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	if looks := after - before; looks > 50 {
		t.Errorf("it looked %d times while it waited", looks)
	}
}
