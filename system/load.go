package system

import (
	"time"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/taskengine"
	"github.com/raysys/raysys/internal/wire"
)

// loadEvery is how often a node tells the others how busy it is, when that changed. Results of tasks carry the same, so
// this serves those that have sent nothing lately.
const loadEvery = 100 * time.Millisecond

// tellLoad sends the load to all peers: when it changed since the last look, or at once when the task engine says that
// others should know.
func (c *cluster) tellLoad() {
	tick := time.NewTicker(loadEvery)
	defer tick.Stop()
	var last taskengine.Load
	for {
		select {
		case <-tick.C:
			c.refs.Tick()
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
			if p.Send(wire.Control, wire.KindLoad, frame) == nil { // one that is gone does not care
				p.Flush()
			}
		}
		c.learnLoad(c.self(), now)
	}
}

// loadChanged makes tellLoad look now.
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
	defer c.mu.Unlock()
	c.loads[k] = l
	c.gen++
}

// taskInfo is what the task engine must know of a peer: what it offers, which for a driver is nothing.
func (c *cluster) taskInfo(p *refs.Session) taskengine.PeerInfo {
	info := c.mesh.Info(p.Key())
	if info.Role == member.Driver && !info.Serves {
		return taskengine.PeerInfo{}
	}
	return taskengine.PeerInfo{Resources: info.Resources}
}
