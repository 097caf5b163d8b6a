package system

import (
	"time"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/taskengine"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/placement"
)

// loadEvery is how often a node sends its load to the others, when it has changed. Results of tasks carry the load too,
// so this is for nodes that have sent it no tasks lately.
const loadEvery = 100 * time.Millisecond

// tellLoad sends the load to all peers when it has changed: at each tick, and at once when the task engine calls
// loadChanged.
func (c *cluster) tellLoad() {
	tick := time.NewTicker(loadEvery)
	defer tick.Stop()
	var last taskengine.Load
	for {
		select {
		case <-tick.C:
			c.refs.Tick()
			c.node.tasks.Tick()
		case <-c.tell:
		case <-c.ctx.Done():
			return
		}
		now := c.node.tasks.Load()
		if now == last {
			continue
		}
		last = now
		frame := taskengine.AppendLoad(nil, now)
		for _, p := range c.mesh.Connected() {
			if p.Send(wire.Control, wire.KindLoad, frame) == nil { // a peer that is gone needs no load
				p.Flush()
			}
		}
		c.learnLoad(c.self(), now)
	}
}

// loadChanged wakes tellLoad.
func (c *cluster) loadChanged() {
	select {
	case c.tell <- struct{}{}:
	default:
	}
}

// onLoad handles KindLoad.
func (c *cluster) onLoad(p *refs.Session, frame []byte) error {
	r := wire.NewReader(frame)
	l, err := taskengine.ReadLoad(&r)
	if err != nil {
		return err
	}
	c.learnLoad(p.Key(), l)
	c.node.tasks.PeerLoad(p, l)
	return nil
}

func (c *cluster) learnLoad(k core.NodeKey, l taskengine.Load) {
	c.mu.Lock()
	changed := c.loads[k].Rest != l.Rest
	c.loads[k] = l
	c.gen++
	c.mu.Unlock()
	if changed {
		c.view.update(k, func(n *placement.Node) { setFree(n, l.Rest) })
	}
}

// taskInfo tells the task engine what a peer offers: a driver offers nothing.
func (c *cluster) taskInfo(p *refs.Session) taskengine.PeerInfo {
	info := c.mesh.Info(p.Key())
	if info.Role == member.Driver && !info.Serves {
		return taskengine.PeerInfo{}
	}
	return taskengine.PeerInfo{Resources: info.Resources}
}
