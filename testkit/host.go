package testkit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/flaky"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/linktest"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/internal/standins"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/system"
)

// host is one node of a cluster under test, through all its lives. It does for the node what system.Main does for a
// program: a fenced one joins anew, one that was asked to drain drains and ends.
type host struct {
	c     *Cluster
	index int
	name  raysys.NodeID
	owned sync.WaitGroup // of follow and of killed lives
	disk  *slowDisk

	turn chan struct{} // has one element while a life begins: a wait for a mutex would stop virtual time

	mu     sync.Mutex // guards the rest
	life   *life      // nil while the node is down
	begins *life      // one that has not joined yet: the store's faults are its own too
	killed int        // how often; a start that began before the last does not count
	abort  context.CancelFunc
}

// life is one incarnation, from its start on.
type life struct {
	node   *system.Node
	killed int // host.killed when it began
	gate   *gate
	kv     *flaky.KV
	clock  *nodeClock
	watch  *strict       // nil when loose
	over   chan struct{} // closed when the node was closed, by any goroutine
	ending atomic.Bool   // a goroutine ends it: only one closes the node
}

// start begins a life, unless the node was killed more often than the caller knows.
func (h *host) start(ctx context.Context, killed int) (*life, error) {
	c := h.c
	h.turn <- struct{}{}
	defer func() { <-h.turn }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h.mu.Lock()
	switch {
	case h.killed != killed:
		h.mu.Unlock()
		return nil, errKilled
	case h.life != nil: // a start that had the turn before this one
		h.mu.Unlock()
		return nil, errRuns
	}
	h.abort = cancel
	h.mu.Unlock()
	l := &life{killed: killed, gate: newGate(), clock: newNodeClock(), over: make(chan struct{})}
	l.kv = flaky.Wrap(&gatedKV{gate: l.gate, inner: c.store})
	l.kv.Hook(c.meetsStore)
	h.mu.Lock()
	h.begins = l
	down, slow := c.storeOf(h.index)
	l.kv.Down(down)
	l.kv.Slow(slow)
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		h.begins = nil
		h.mu.Unlock()
	}()
	cfg := c.config(h.index)
	cfg.Name = h.name
	cfg.Cluster.Store = l.kv
	parts := standins.Of(cfg.Cluster)
	parts.Network, parts.Clock, parts.Files = &gatedTransport{Transport: c.net.Transport(h.name), gate: l.gate}, l.clock, h.disk
	parts.Chaos = func(to raysys.NodeID, class wire.Class, kind wire.Kind) link.Action {
		return c.chaos.Decide(linktest.Frame{From: h.name, To: to, Class: class, Kind: kind})
	}
	if !c.loose {
		l.watch = newStrict()
		*standins.Inspector(&cfg) = l.watch
		c.watch(h.name, l.watch)
	}
	n, err := system.New(cfg)
	if err != nil {
		return nil, err
	}
	l.node = n
	err = n.Start(ctx)
	h.mu.Lock()
	if h.abort = nil; h.killed != killed {
		err = errKilled
	}
	if err == nil {
		h.life = l
	}
	h.mu.Unlock()
	if err != nil {
		l.gate.shut()
		_ = n.Kill(context.Background(), err)
		return nil, err
	}
	return l, nil
}

// follow is what a worker's main does.
func (h *host) follow(l *life) {
	h.owned.Go(func() {
		select {
		case <-l.over:
			return
		case <-l.node.DrainRequested():
			ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
			defer cancel()
			err := l.node.Drain(ctx)
			if errors.Is(err, system.ErrDrainCancelled) {
				h.follow(l)
				return
			}
			h.c.report(h.name, err)
			h.close(l)
			return
		case <-l.node.Done():
		}
		if l.gate.isShut() || !errors.Is(l.node.Err(), raysys.ErrFenced) {
			return // another goroutine ends it, or it has nothing to come back to
		}
		h.end(l, func(ctx context.Context) { _ = l.node.Close(ctx) })
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		defer context.AfterFunc(h.c.closing, cancel)()
		if next, err := h.start(ctx, l.killed); err == nil {
			h.follow(next)
		} else if h.c.closing.Err() == nil && !errors.Is(err, errKilled) && !errors.Is(err, errRuns) {
			h.c.report(h.name, fmt.Errorf("join again after it was fenced: %w", err))
		}
	})
}

// end ends a life by f, once; later calls wait for the first. They wait on a channel: in virtual time no clock goes
// on while a goroutine waits for a mutex, such as that of a sync.Once.
func (h *host) end(l *life, f func(context.Context)) {
	if l.ending.CompareAndSwap(false, true) {
		ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
		defer cancel()
		f(ctx)
		h.mu.Lock()
		if h.life == l {
			h.life = nil
		}
		h.mu.Unlock()
		close(l.over)
	}
	<-l.over
}

// close ends a life in good order.
func (h *host) close(l *life) {
	h.end(l, func(ctx context.Context) {
		fenced := l.node.Err() != nil
		if err := l.node.Close(ctx); err != nil && !fenced {
			h.c.report(h.name, err)
		}
	})
}

// kill ends a life as SIGKILL does, as far as that can be done to a part of a process: nothing goes out from this moment
// on, and what ran is cancelled in the background.
func (h *host) kill() {
	h.mu.Lock()
	h.killed++
	l := h.life
	h.life = nil
	if h.abort != nil {
		h.abort()
	}
	h.mu.Unlock()
	if l == nil {
		return
	}
	l.gate.shut()
	h.c.net.Kill(h.name)
	h.owned.Go(func() {
		h.end(l, func(ctx context.Context) { _ = l.node.Kill(ctx, errKilled) })
	})
}

// errKilled is why the work of a killed node is cancelled, for what of it still looks.
var errKilled = fmt.Errorf("%w: the test killed its node", raysys.ErrClosed)

// errRuns is why a start begins no life.
var errRuns = errors.New("the node runs already")

func (h *host) kills() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.killed
}

func (h *host) current() *life {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.life
}

// lives are the current life, and one that begins.
func (h *host) lives() (list []*life) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range []*life{h.life, h.begins} {
		if l != nil {
			list = append(list, l)
		}
	}
	return list
}

// pause and resume are SIGSTOP and SIGCONT as others see them.
func (h *host) pause(on bool) {
	if on {
		for _, l := range h.lives() {
			l.gate.hold()
		}
		h.c.net.Pause(h.name)
		return
	}
	h.c.net.Resume(h.name)
	for _, l := range h.lives() {
		l.gate.release()
	}
}

// session returns the store's session of the node's current life.
func (h *host) session(ctx context.Context) (string, error) {
	p, err := h.c.store().Get(ctx, shardlog.NodesPrefix+string(h.name))
	if err != nil {
		return "", fmt.Errorf("find the session of node %s: %w", h.name, err)
	}
	return p.Session, nil
}
