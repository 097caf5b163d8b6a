package stream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/stream/internal/bus"
	"github.com/raysys/raysys/stream/internal/jetbus"
	"github.com/raysys/raysys/system"
)

// node is the streams of one node, from its start to its end.
type node struct {
	ready chan struct{} // closed when of and ctx are set
	of    *system.Node
	ctx   context.Context

	mu      sync.Mutex // guards the rest; nothing waits under it
	bus     bus.Bus    // once something has asked for it
	opening *opening   // nil where nothing opens the bus now
	made    map[string]bool
	pumps   map[*pump]bool
}

// opening is an attempt to open the bus, for all who ask for it meanwhile.
type opening struct {
	done chan struct{} // closed by the attempt when bus and err are set
	bus  bus.Bus
	err  error
}

// nodes has a *node for each *system.Node of the process that runs.
var nodes sync.Map

func init() { system.OnStart(start) }

func start(ctx context.Context, of *system.Node) error {
	n := entry(of)
	n.of, n.ctx = of, ctx
	close(n.ready)
	context.AfterFunc(ctx, func() {
		nodes.Delete(of)
		if b := n.busNow(); b != nil {
			b.Close()
		}
	})
	if len(subscriptions()) > 0 {
		go n.wake()
	}
	return nil
}

func entry(of *system.Node) *node {
	v, ok := nodes.Load(of)
	if !ok {
		v, _ = nodes.LoadOrStore(of, &node{ready: make(chan struct{}), made: map[string]bool{}, pumps: map[*pump]bool{}})
	}
	return v.(*node)
}

// nodeOf is the node of a context.
func nodeOf(ctx context.Context) (*node, error) {
	of := system.NodeOf(ctx)
	if of == nil {
		return nil, fmt.Errorf("stream: %w", raysys.ErrNoRuntime)
	}
	n := entry(of)
	select {
	case <-n.ready:
		return n, nil
	case <-of.Done(): // n may be new: the node's own is forgotten
		nodes.Delete(of)
		return nil, fmt.Errorf("stream: %w", of.Err())
	case <-ctx.Done():
		return nil, fmt.Errorf("stream: %w", context.Cause(ctx))
	}
}

// memoryScheme begins the URL of streams in memory, which the nodes of a process share: for tests.
const memoryScheme = "memory:"

// busNow is the node's bus; nil before it is open.
func (n *node) busNow() bus.Bus {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.bus
}

// open returns the node's bus. It may have to ask the store where NATS is, and to reach that: one goroutine does so for all callers, each of which waits
// until its own context ends.
func (n *node) open(ctx context.Context) (bus.Bus, error) {
	n.mu.Lock()
	if n.bus != nil {
		defer n.mu.Unlock()
		return n.bus, nil
	}
	o := n.opening
	if o == nil {
		o = &opening{done: make(chan struct{})}
		n.opening = o
		go n.finish(o)
	}
	n.mu.Unlock()
	select {
	case <-o.done:
		return o.bus, o.err
	case <-ctx.Done():
		return nil, fmt.Errorf("find NATS: %w", context.Cause(ctx))
	}
}

// finish makes an attempt to open the bus.
func (n *node) finish(o *opening) {
	defer close(o.done)
	b, err := n.connect()
	n.mu.Lock()
	n.opening = nil
	if err == nil && n.ctx.Err() == nil {
		n.bus, o.bus = b, b
	}
	n.mu.Unlock()
	switch {
	case o.bus != nil:
	case err == nil: // the node has ended, and closes only what it has seen
		b.Close()
		o.err = context.Cause(n.ctx)
	default:
		o.err = err
	}
}

// connect makes a bus, of the kind that the node's configuration or the store says.
func (n *node) connect() (bus.Bus, error) {
	cfg, err := n.of.NATS(n.ctx)
	switch {
	case n.ctx.Err() != nil:
		return nil, context.Cause(n.ctx)
	case err != nil:
		return nil, err
	case strings.HasPrefix(cfg.URL, memoryScheme):
		return shared(cfg.URL), nil
	case cfg.URL != "":
		b, err := jetbus.Open(jetbus.Config{URL: cfg.URL, Token: cfg.Token, Creds: cfg.Creds, CA: cfg.CA, Name: "raysys " + string(n.of.Name())})
		if err != nil {
			return nil, err // and no *jetbus.Bus that is nil
		}
		return b, nil
	case n.of.Cluster() != "":
		return nil, ErrNoNATS
	}
	return bus.NewMemory(), nil
}

// ensure returns the bus once it has the stream.
func (n *node) ensure(ctx context.Context, d *definition) (bus.Bus, error) {
	b, err := n.open(ctx)
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", d.name, err)
	}
	n.mu.Lock()
	made := n.made[d.name]
	n.mu.Unlock()
	if made {
		return b, nil
	}
	if err := b.Ensure(ctx, d.config(n.of.Cluster(), n.of.Namespace())); err != nil {
		return nil, d.typed(err)
	}
	n.mu.Lock()
	n.made[d.name] = true
	n.mu.Unlock()
	return b, nil
}

// connects counts how often the connection to the bus was made again.
func (n *node) connects() uint64 {
	if b := n.busNow(); b != nil {
		return b.Connects()
	}
	return 0
}

// missed takes note that the bus has lost the stream, where err says so: the next ensure makes it again.
func (n *node) missed(d *definition, err error) bool {
	if !errors.Is(err, bus.ErrNoStream) {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.made, d.name)
	return true
}

// nameOf is a stream's name among those of all programs.
func (n *node) nameOf(d *definition) string { return d.config(n.of.Cluster(), n.of.Namespace()).Name }

// memories are the buses in memory that nodes of this process share, by URL.
var memories struct {
	mu sync.Mutex
	m  map[string]*sharedMemory
}

// sharedMemory is one of them, for one node.
type sharedMemory struct {
	*bus.Memory
	url   string
	users int
}

func shared(url string) bus.Bus {
	memories.mu.Lock()
	defer memories.mu.Unlock()
	if memories.m == nil {
		memories.m = map[string]*sharedMemory{}
	}
	m := memories.m[url]
	if m == nil {
		m = &sharedMemory{Memory: bus.NewMemory(), url: url}
		memories.m[url] = m
	}
	m.users++
	return m
}

// Close implements bus.Bus: it counts the nodes.
func (m *sharedMemory) Close() {
	memories.mu.Lock()
	defer memories.mu.Unlock()
	if m.users--; m.users == 0 {
		delete(memories.m, m.url)
		m.Memory.Close()
	}
}
