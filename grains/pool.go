package grains

import (
	"fmt"
	"sync"

	"github.com/raysys/raysys"
)

// pool is one key of a stateless worker kind: one queue, and up to n activations that pull from it. A call is bound
// to no worker beforehand, so a short one does not wait behind a long one while a worker is free.
type pool struct {
	kind  *boundKind
	key   string
	mu    sync.Mutex // guards the rest
	queue []turn
	first int // of queue; the slots before it are nil
	idle  []*activation
	all   map[string]*activation // by PID id
}

// pull tells a worker that there may be calls.
type pull struct{}

func (k *boundKind) pool(key string) *pool {
	if p, ok := k.pools.Load(key); ok {
		return p.(*pool)
	}
	p, _ := k.pools.LoadOrStore(key, &pool{kind: k, key: key, all: map[string]*activation{}})
	return p.(*pool)
}

func (p *pool) deliver(c turn) error {
	e := p.kind.engine
	p.mu.Lock()
	if e.closed.Load() {
		p.mu.Unlock()
		return raysys.ErrClosed
	}
	if n := len(p.queue) - p.first; n >= p.kind.def.mailbox {
		p.mu.Unlock()
		return fmt.Errorf("%w: %d calls wait for the workers: call less often, wait for results, or raise grains.Mailbox",
			raysys.ErrOverloaded, n)
	}
	p.queue = append(p.queue, c)
	var a *activation
	fresh := false
	switch n := len(p.idle); {
	case n > 0:
		a, p.idle = p.idle[n-1], p.idle[:n-1]
	case len(p.all) < p.kind.def.workers:
		a, fresh = newActivation(p.kind, p.key), true
		a.pool = p
		p.all[a.id] = a
	}
	p.mu.Unlock()
	if a == nil {
		return nil
	}
	a.post(&mail{msg: pull{}})
	if fresh {
		if p.kind.live.Add(1) == 1 {
			p.kind.arm()
		}
		a.spawn()
	}
	return nil
}

// next takes the oldest call, or marks the worker idle.
func (p *pool) next(a *activation) turn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.first == len(p.queue) {
		p.queue, p.first = p.queue[:0], 0
		if cap(p.queue) > 1024 {
			p.queue = nil
		}
		p.idle = append(p.idle, a)
		return nil
	}
	c := p.queue[p.first]
	p.queue[p.first] = nil
	p.first++
	if p.first > 1024 && p.first*2 > len(p.queue) {
		p.queue = append(p.queue[:0], p.queue[p.first:]...)
		p.first = 0
	}
	return c
}

// work runs calls on a until there are none. A worker that leaves after a panic passes its pull on.
func (p *pool) work(a *activation) (panicked any) {
	for c := p.next(a); c != nil; c = p.next(a) {
		c.place(a)
		if panicked = a.perform(c); panicked != nil && p.kind.def.onPanic != KeepOnPanic {
			a.post(&mail{msg: pull{}}) // for its successor after a restart; leave passes it on after a stop
			return panicked
		}
	}
	return nil
}

func (p *pool) find(id string) *activation {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all[id]
}

// leave takes a stopped worker out, and replaces it when calls wait.
func (p *pool) leave(a *activation) {
	p.mu.Lock()
	delete(p.all, a.id)
	for i, x := range p.idle {
		if x == a {
			p.idle = append(p.idle[:i], p.idle[i+1:]...)
			break
		}
	}
	waiting := len(p.queue) - p.first
	var left []turn
	if p.kind.engine.closed.Load() && len(p.all) == 0 {
		left, p.queue, p.first = append(left, p.queue[p.first:]...), nil, 0
	}
	p.mu.Unlock()
	defer p.kind.left()
	for _, c := range left {
		c.core().Cancel(raysys.ErrClosed)
	}
	if waiting > len(left) {
		p.replace()
	}
}

func (p *pool) replace() {
	p.mu.Lock()
	if len(p.all) >= p.kind.def.workers || p.first == len(p.queue) {
		p.mu.Unlock()
		return
	}
	a := newActivation(p.kind, p.key)
	a.pool = p
	p.all[a.id] = a
	p.mu.Unlock()
	p.kind.live.Add(1)
	a.post(&mail{msg: pull{}})
	a.spawn()
}
