package testkit

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/store"
)

// gate is what one life of a node passes through on its way out, to the store and to other nodes: it can be held for a
// while, as SIGSTOP does, and shut for good, as SIGKILL does.
type gate struct {
	dead chan struct{} // closed by shut
	once sync.Once

	mu   sync.Mutex    // guards free
	free chan struct{} // closed while nothing is held
}

func newGate() *gate {
	g := &gate{dead: make(chan struct{}), free: make(chan struct{})}
	close(g.free)
	return g
}

func (g *gate) hold() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.free:
		g.free = make(chan struct{})
	default:
	}
}

func (g *gate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.free:
	default:
		close(g.free)
	}
}

func (g *gate) shut() { g.once.Do(func() { close(g.dead) }) }

func (g *gate) isShut() bool {
	select {
	case <-g.dead:
		return true
	default:
		return false
	}
}

// pass waits while the gate is held. An error says that nothing may pass any more.
func (g *gate) pass(ctx context.Context) error {
	for {
		g.mu.Lock()
		free := g.free
		g.mu.Unlock()
		select {
		case <-g.dead:
			return fmt.Errorf("%w: the process was killed by the test", store.ErrUnavailable)
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", store.ErrUnavailable, context.Cause(ctx))
		case <-free:
		}
		g.mu.Lock()
		same := g.free == free
		g.mu.Unlock()
		if same && !g.isShut() {
			return nil
		}
	}
}

// gatedKV is a store behind a gate. Which store that is may change: see Cluster.ReplaceStore.
type gatedKV struct {
	gate  *gate
	inner func() store.KV
}

var _ store.KV = (*gatedKV)(nil)

// through makes one call. Its answer has to pass the gate too: one that cannot leaves a change's outcome open.
func through[T any](k *gatedKV, ctx context.Context, writes bool, f func(store.KV) (T, error)) (T, error) {
	var zero T
	if err := k.gate.pass(ctx); err != nil {
		return zero, err
	}
	v, err := f(k.inner())
	if blocked := k.gate.pass(ctx); blocked != nil && err == nil {
		if writes {
			blocked = fmt.Errorf("%w: %w", store.ErrUnknownOutcome, blocked)
		}
		return zero, blocked
	}
	return v, err
}

func (k *gatedKV) Get(ctx context.Context, key string) (store.Pair, error) {
	return through(k, ctx, false, func(kv store.KV) (store.Pair, error) { return kv.Get(ctx, key) })
}

type pairsAt struct {
	pairs []store.Pair
	index uint64
}

func (k *gatedKV) List(ctx context.Context, prefix string, mode store.ReadMode) ([]store.Pair, uint64, error) {
	p, err := through(k, ctx, false, func(kv store.KV) (p pairsAt, err error) {
		p.pairs, p.index, err = kv.List(ctx, prefix, mode)
		return p, err
	})
	return p.pairs, p.index, err
}

func (k *gatedKV) Keys(ctx context.Context, prefix string) ([]string, error) {
	return through(k, ctx, false, func(kv store.KV) ([]string, error) { return kv.Keys(ctx, prefix) })
}

func (k *gatedKV) Txn(ctx context.Context, ops []store.Op) ([]store.Pair, error) {
	return through(k, ctx, true, func(kv store.KV) ([]store.Pair, error) { return kv.Txn(ctx, ops) })
}

func (k *gatedKV) Watch(ctx context.Context, prefix string, after uint64) ([]store.Pair, uint64, error) {
	p, err := through(k, ctx, false, func(kv store.KV) (p pairsAt, err error) {
		p.pairs, p.index, err = kv.Watch(ctx, prefix, after)
		return p, err
	})
	return p.pairs, p.index, err
}

func (k *gatedKV) NewSession(ctx context.Context, name string, ttl time.Duration) (string, error) {
	return through(k, ctx, true, func(kv store.KV) (string, error) { return kv.NewSession(ctx, name, ttl) })
}

func (k *gatedKV) Renew(ctx context.Context, session string) error {
	_, err := through(k, ctx, false, func(kv store.KV) (struct{}, error) { return struct{}{}, kv.Renew(ctx, session) })
	return err
}

func (k *gatedKV) Destroy(ctx context.Context, session string) error {
	_, err := through(k, ctx, false, func(kv store.KV) (struct{}, error) { return struct{}{}, kv.Destroy(ctx, session) })
	return err
}

func (k *gatedKV) Session(ctx context.Context, session string) (bool, error) {
	return through(k, ctx, false, func(kv store.KV) (bool, error) { return kv.Session(ctx, session) })
}

// Close leaves the store, which belongs to the cluster.
func (k *gatedKV) Close() error { return nil }

// gatedTransport is a node's end of the network in one of its lives: a dead one makes no connections and takes none.
// The network itself holds what a paused one has.
type gatedTransport struct {
	link.Transport
	gate *gate
}

func (t *gatedTransport) Listen(ctx context.Context, addr string) (net.Listener, error) {
	if t.gate.isShut() {
		return nil, fmt.Errorf("listen at %s: %w", addr, net.ErrClosed)
	}
	return t.Transport.Listen(ctx, addr)
}

func (t *gatedTransport) Dial(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := t.Transport.Dial(ctx, addr)
	if err == nil && t.gate.isShut() { // it was made after the network broke this life's connections
		conn.Close()
		err = fmt.Errorf("dial %s: %w", addr, net.ErrClosed)
	}
	return conn, err
}
