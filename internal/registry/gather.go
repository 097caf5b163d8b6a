package registry

import (
	"cmp"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/placement"
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

// leaderNodes is the nodes as the decisions of a leader see them. The view is kept while the members and their connections stay:
// it is corrected for the nodes that have reported since the decision before.
type leaderNodes struct {
	view *placement.View
	at   Moment
	took map[core.NodeKey]int64 // nodes that decisions took resources of since their last report, and when that is forgotten
}

// takenFor is how long a decision counts at most, on the clock of the Runner. A node that got the work reports it by then. One that
// did not, because the commit or the node refused it, may have nothing to report.
const takenFor = 300 * time.Millisecond

// taken notes that the view has needs taken from a node.
func (n *leaderNodes) taken(k core.NodeKey, needs raysys.Resources, now int64) {
	if needs.CPU == 0 && needs.GPU == 0 && needs.Memory == 0 && len(needs.Custom) == 0 {
		return
	}
	if n.took == nil {
		n.took = map[core.NodeKey]int64{}
	}
	n.took[k] = now + int64(takenFor)
}

// reported returns what enters the last report of a node.
func (n *leaderNodes) reported(members Members) func(core.NodeKey) {
	return func(k core.NodeKey) {
		delete(n.took, k)
		if n.view == nil {
			return
		}
		if own := n.view.Find(k.Node); own != nil && own.Incarnation == k.Incarnation {
			n.view.Update(k.Node, members.Reported)
		}
	}
}
