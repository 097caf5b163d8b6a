package system

import (
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/wire"
)

const (
	// dropPause is how long a reference that nobody needs is kept back before its holder is told: one that was sent home a
	// moment ago, over a class that is slower, arrives before it.
	dropPause = 200 * time.Millisecond
	// loanGrace is how long the references of a dead node count on; see loan.
	loanGrace = 2 * time.Second
)

// drops are references that are given back to the nodes that keep them for this one.
type drops struct {
	mu    sync.Mutex // guards the rest
	list  map[nodeKey][]uint64
	armed bool
	alarm raysys.Alarm
}

// add gives references back, soon.
func (d *drops) add(c *cluster, refs ...heldRef) {
	if len(refs) == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.list == nil {
		d.list = map[nodeKey][]uint64{}
	}
	for _, r := range refs {
		d.list[r.owner] = append(d.list[r.owner], r.number)
	}
	d.armLocked(c)
}

func (d *drops) armLocked(c *cluster) {
	if !d.armed {
		d.armed = true
		d.alarm.At, d.alarm.Ring = c.now()+int64(dropPause), func() { d.send(c) }
		c.node.SetAlarm(&d.alarm)
	}
}

// send tells the holders. What one cannot be told now it is told later, for as long as it lives.
func (d *drops) send(c *cluster) {
	d.mu.Lock()
	list := d.list
	d.list, d.armed = nil, false
	d.mu.Unlock()
	for k, numbers := range list {
		c.connect(k, func(p *peer, err error) {
			if err != nil {
				if c.alive(k) && c.ctx.Err() == nil {
					d.again(c, k, numbers)
				}
				return
			}
			for i, n := range numbers {
				if p.Send(wire.Requests, wire.KindDrop, wire.AppendUvarint(nil, n)) != nil {
					d.again(c, k, numbers[i:])
					return
				}
			}
			p.Flush()
		})
	}
}

func (d *drops) again(c *cluster, k nodeKey, numbers []uint64) {
	refs := make([]heldRef, len(numbers))
	for i, n := range numbers {
		refs[i] = heldRef{k, n}
	}
	d.add(c, refs...)
}

// close ends it.
func (d *drops) close(c *cluster) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.armed = true // so that it is not armed again
	c.node.ClearAlarm(&d.alarm)
}
