package registry

import (
	"cmp"
	"sync"
	"time"
)

const (
	// gatherFor is how long a change waits for others to the same shard. A batch costs the shard's log as much as one
	// change.
	gatherFor = 2 * time.Millisecond
	// maxChanges bounds the changes of one request.
	maxChanges = 64
	// maxRequestBytes bounds the bytes of the changes of one request: they are one batch of the shard where they can.
	maxRequestBytes = 256 << 10
)

// gatherer sends the changes of one shard together: C is a change, and E answers one.
type gatherer[C interface {
	shardKey() string // of the record that it changes
	size() int        // in a request
}, E any] struct {
	reg     *Registry
	request func([]C) operation[[]E]
	wait    time.Duration // 0: gatherFor
	most    int           // changes of a request; 0: maxChanges

	mu      sync.Mutex // guards waiting
	waiting map[int]*gathered[C, E]
}

// gathered are the changes that wait to be sent to the leader of one shard.
type gathered[C, E any] struct {
	list []C
	done []func(E, error)
	size int
}

// add has a change sent. done is called on any goroutine and must not block.
func (g *gatherer[C, E]) add(ch C, done func(E, error)) {
	n, size := g.reg.cfg.Layout.ShardOf(ch.shardKey()), ch.size()
	g.mu.Lock()
	b := g.waiting[n]
	var full [2]*gathered[C, E] // are sent now
	if b != nil && b.size+size > maxRequestBytes {
		full[0], b = b, nil
	}
	if b == nil {
		b = &gathered[C, E]{}
		if g.waiting == nil {
			g.waiting = map[int]*gathered[C, E]{}
		}
		g.waiting[n] = b
		g.reg.cfg.Runner.After(cmp.Or(g.wait, gatherFor), func() { g.flush(n, b) })
	}
	b.list, b.done, b.size = append(b.list, ch), append(b.done, done), b.size+size
	if len(b.list) == cmp.Or(g.most, maxChanges) || b.size >= maxRequestBytes {
		full[1] = b
		delete(g.waiting, n)
	}
	g.mu.Unlock()
	for _, b := range full {
		if b != nil {
			g.send(b)
		}
	}
}

// flush sends changes, unless they were sent when they were full.
func (g *gatherer[C, E]) flush(shard int, b *gathered[C, E]) {
	g.mu.Lock()
	due := g.waiting[shard] == b
	if due {
		delete(g.waiting, shard)
	}
	g.mu.Unlock()
	if due {
		g.send(b)
	}
}

func (g *gatherer[C, E]) send(b *gathered[C, E]) {
	ask(g.reg, g.request(b.list), func(entries []E, err error) {
		for i, done := range b.done {
			if err != nil {
				var none E
				done(none, err)
				continue
			}
			done(entries[i], nil)
		}
	})
}
