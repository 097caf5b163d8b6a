package system_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/system"
)

// lagging is a store whose watch of nodes says nothing while it is held.
type lagging struct {
	store.KV
	mu   sync.Mutex
	held chan struct{} // nil while it is not
}

func (l *lagging) hold() (release func()) {
	c := make(chan struct{})
	l.mu.Lock()
	l.held = c
	l.mu.Unlock()
	return sync.OnceFunc(func() {
		l.mu.Lock()
		l.held = nil
		l.mu.Unlock()
		close(c)
	})
}

// Watch implements store.KV.
func (l *lagging) Watch(ctx context.Context, prefix string, after uint64) ([]store.Pair, uint64, error) {
	pairs, at, err := l.KV.Watch(ctx, prefix, after)
	l.mu.Lock()
	held := l.held
	l.mu.Unlock()
	if held != nil && strings.HasPrefix(prefix, shardlog.NodesPrefix) {
		select {
		case <-held:
		case <-ctx.Done():
		}
	}
	return pairs, at, err
}

// TestOwnerNotSeenYet: a node that joined a moment ago owns what a worker is to read, and the store's watch has not told the
// worker of it: it is not taken for dead.
func TestOwnerNotSeenYet(t *testing.T) {
	f := newFleet(t)
	late := &lagging{KV: f.kv}
	w, _ := f.join("w", system.Worker, func(c *system.Config) { c.Cluster.Store = late })
	release := late.hold()
	t.Cleanup(release)
	d, ctx := f.join("d", system.Driver)
	b := fill(200_000, 3)
	for round := range 2 {
		if got, err := viewSum.Go(ctx, raysys.Put(ctx, b).Handle()).Get(ctx); err != nil || got != sum(b) {
			t.Fatalf("round %d: %d, %v; want %d", round, got, err, sum(b))
		}
		// Without the connection the worker asks the store where the owner is.
		system.Break(w, "d")
	}
	if _, known := system.Known(w, "d"); known {
		t.Error("the worker's view has the driver: the test shows nothing")
	}
	release()
	eventually(t, "the worker knows it", func() bool { _, known := system.Known(w, "d"); return known })
	if err := d.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the worker knows its end", func() bool { _, known := system.Known(w, "d"); return !known })
}
