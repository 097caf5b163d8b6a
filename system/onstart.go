package system

import (
	"context"
	"fmt"
	"sync"
)

// onStart are the functions that OnStart was given.
var onStart struct {
	mu sync.Mutex
	f  []func(context.Context, *Node) error
}

// OnStart has f called at each start of each node of this process, before Start returns: when the node can be used, and again
// for the next incarnation of a node that was fenced. Packages that bring something along for each node call it from init.
//
// ctx is a driver's, as Node.Context returns it, and ends with the node. Calls of grains of this node may come before f has
// returned. An error fails Start, which closes the node.
func OnStart(f func(ctx context.Context, n *Node) error) {
	onStart.mu.Lock()
	defer onStart.mu.Unlock()
	onStart.f = append(onStart.f, f)
}

// runOnStart calls the functions in the order in which they were given, up to the first that fails.
func (n *Node) runOnStart() error {
	onStart.mu.Lock()
	list := onStart.f[:len(onStart.f):len(onStart.f)]
	onStart.mu.Unlock()
	for _, f := range list {
		if err := f(n.Context(context.Background()), n); err != nil {
			return fmt.Errorf("a function given to OnStart: %w", err)
		}
	}
	return nil
}
