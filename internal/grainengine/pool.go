package grainengine

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// pool is one key of a stateless worker kind: one queue, and up to n activations that pull from it. A call is bound
// to no worker beforehand, so a short one does not wait behind a long one while a worker is free.
type pool struct {
	kind  *boundKind
	key   string
	mu    sync.Mutex // guards the rest
	queue []*call
	first int // of queue; the slots before it are nil
	idle  []*activation
	all   map[string]*activation // by PID id
	gone  bool                   // taken out of boundKind.pools: the key has another pool, or none
}

// pull is the message to a worker that there may be calls.
type pull struct{}

func (k *boundKind) pool(key string) *pool {
	if p, ok := k.pools.Load(key); ok {
		return p.(*pool)
	}
	p, _ := k.pools.LoadOrStore(key, &pool{kind: k, key: key, all: map[string]*activation{}})
	return p.(*pool)
}

// pooled gives c to the workers of the key.
func (k *boundKind) pooled(key string, c *call) error {
	for {
		if err := k.pool(key).deliver(c); err != errGone {
			return err
		}
	}
}

// errGone asks the caller to look for the key's pool again.
var errGone = errors.New("the pool is gone")

func (p *pool) deliver(c *call) error {
	e := p.kind.engine
	p.mu.Lock()
	if p.gone {
		p.mu.Unlock()
		return errGone
	}
	if e.closed.Load() {
		p.mu.Unlock()
		return raysys.ErrClosed
	}
	if n := len(p.queue) - p.first; n >= p.kind.def.Mailbox {
		p.mu.Unlock()
		return fmt.Errorf("%w: %d calls wait for the workers: call less often, wait for results, or raise grains.Mailbox",
			raysys.ErrOverloaded, n)
	}
	p.queue = append(p.queue, c)
	p.countLocked(+1)
	var a *activation
	fresh, first := false, false
	switch n := len(p.idle); {
	case n > 0:
		a, p.idle = p.idle[n-1], p.idle[:n-1]
		a.told()
	case len(p.all) < p.kind.workers:
		a, fresh = p.growLocked(), true
		first = p.kind.live.Add(1) == 1
	}
	if p.kind.workers == 1 { // then the call waits for the turn of that one
		for _, only := range p.all {
			c.queueAt(only)
		}
	}
	p.mu.Unlock()
	if a == nil {
		return nil
	}
	a.post(&mail{msg: pull{}})
	if first {
		p.kind.arm()
	}
	if fresh {
		a.spawn()
	}
	return nil
}

func (p *pool) growLocked() *activation {
	a := newActivation(p.kind, p.key, core.Bundle{})
	a.pool = p
	p.all[a.id] = a
	a.told()
	return a
}

// next takes the oldest call, or marks the worker idle.
func (p *pool) next(a *activation) *call {
	p.mu.Lock()
	if a.holding != nil {
		a.holding.pulls = false
	}
	var c *call
	if p.first < len(p.queue) {
		c = p.takeLocked(p.first)
	} else {
		p.queue, p.first = p.queue[:0], 0
		if cap(p.queue) > 1024 {
			p.queue = nil
		}
		p.idle = append(p.idle, a)
	}
	over := p.overLocked()
	p.mu.Unlock()
	if over {
		p.kind.engine.dropWaiting()
	}
	return c
}

// takeLocked takes the call at i out of the queue.
func (p *pool) takeLocked(i int) *call {
	c := p.queue[i]
	copy(p.queue[p.first+1:i+1], p.queue[p.first:i])
	p.queue[p.first] = nil
	p.first++
	if p.first > 1024 && p.first*2 > len(p.queue) {
		p.queue = slices.Delete(p.queue, 0, p.first)
		p.first = 0
	}
	p.countLocked(-1)
	return c
}

// work runs calls on a until there are none. A worker that leaves after a panic passes its pull on.
func (p *pool) work(a *activation) (panicked any) {
	if a.holding != nil && a.holding.hold.Load() == nil && !p.kind.engine.closed.Load() {
		return nil // it was not needed in the end, and goes
	}
	normal := false
	defer func() {
		if !normal {
			a.post(&mail{msg: pull{}}) // the method ended the goroutine (runtime.Goexit); the worker goes on in another
		}
	}()
	for c := p.next(a); c != nil; c = p.next(a) {
		c.queueAt(a)
		if panicked = a.perform(c); panicked != nil && p.kind.def.OnPanic != KeepOnPanic {
			break // the deferred pull is for its successor after a restart; leave passes it on after a stop
		}
		if a.UserMessageCount() > 0 { // a tick of a timer, say, which does not wait until no call does
			p.pullBehind(a)
			break
		}
	}
	normal = panicked == nil || p.kind.def.OnPanic == KeepOnPanic
	return panicked
}

// pullBehind has the worker pull behind what is in its mailbox.
func (p *pool) pullBehind(a *activation) {
	p.mu.Lock()
	a.told()
	p.mu.Unlock()
	a.post(&mail{msg: pull{}})
}

func (p *pool) find(id string) *activation {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all[id]
}

// leave takes a stopped worker out, and replaces it when calls wait.
func (p *pool) leave(a *activation) {
	k := p.kind
	var dropped []*call
	var next *activation
	p.mu.Lock()
	delete(p.all, a.id)
	if i := slices.Index(p.idle, a); i >= 0 {
		p.idle = slices.Delete(p.idle, i, i+1)
	}
	// Close sets closed and then looks at every pool, so it finds what is entered here.
	switch {
	case k.engine.closed.Load():
		if len(p.all) == 0 {
			dropped, p.queue, p.first = p.queue[p.first:], nil, 0
			p.countLocked(-len(dropped))
		}
	case p.waitingLocked() > 0:
		next = p.growLocked()
		k.live.Add(1)
	case len(p.all) == 0:
		p.gone = true
		k.pools.CompareAndDelete(p.key, p)
	}
	p.mu.Unlock()
	defer k.activationGone()
	for _, c := range dropped {
		c.Future.Cancel(raysys.ErrClosed)
	}
	if next != nil {
		next.post(&mail{msg: pull{}})
		next.spawn()
	}
}
