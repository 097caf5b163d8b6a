package system_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
)

// startsSeen is what a function given to OnStart has seen of nodes called on-start-...
var startsSeen struct {
	mu   sync.Mutex
	ctxs map[raysys.NodeID][]context.Context
}

var errOnStart = errors.New("no room for more")

func init() {
	system.OnStart(func(ctx context.Context, n *system.Node) error {
		if !strings.HasPrefix(string(n.Name()), "on-start") {
			return nil
		}
		startsSeen.mu.Lock()
		defer startsSeen.mu.Unlock()
		if startsSeen.ctxs == nil {
			startsSeen.ctxs = map[raysys.NodeID][]context.Context{}
		}
		startsSeen.ctxs[n.Name()] = append(startsSeen.ctxs[n.Name()], ctx)
		if n.Name() == "on-start-fails" {
			return errOnStart
		}
		return nil
	})
}

// TestOnStart: the function is called at each start, with a context of the node that ends with it.
func TestOnStart(t *testing.T) {
	for i := range 2 {
		n, err := system.New(system.Config{Name: "on-start"})
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctxs := startsSeen.ctxs["on-start"]
		if len(ctxs) != i+1 || system.NodeOf(ctxs[i]) != n || ctxs[i].Err() != nil {
			t.Fatalf("start %d: %d calls, context of the node: %v", i, len(ctxs), system.NodeOf(ctxs[i]) == n)
		}
		if err := n.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-ctxs[i].Done()
		if !errors.Is(context.Cause(ctxs[i]), raysys.ErrClosed) {
			t.Fatal(context.Cause(ctxs[i]))
		}
	}
}

// TestOnStartFails: the node is closed, and says why.
func TestOnStartFails(t *testing.T) {
	n, err := system.New(system.Config{Name: "on-start-fails"})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Start(t.Context()); !errors.Is(err, errOnStart) || !strings.Contains(err.Error(), "start node: a function given to OnStart: no room") {
		t.Fatal(err)
	}
	if err := n.Start(t.Context()); !errors.Is(err, raysys.ErrClosed) {
		t.Fatal("started again:", err)
	}
}
