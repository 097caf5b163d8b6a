package system

import (
	"time"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/taskengine"
	"github.com/raysys/raysys/internal/wire"
)

// loadEvery is how often a node sends its load to the others, when it has changed. Results of tasks carry the load too,
// so this is for nodes that have sent it no tasks lately.
const loadEvery = 100 * time.Millisecond

// freedEvery is how often it is sent before the tick, at most, since something else than CPU has become free, for which work may
// wait at another node.
const freedEvery = 20 * time.Millisecond

// tellLoad sends the load to all peers when it has changed: at each tick, and at once when the task engine calls
// loadChanged, and soon after it calls loadFreed.
func (c *cluster) tellLoad() {
	tick := time.NewTicker(loadEvery)
	defer tick.Stop()
	var last taskengine.Load
	freed, pause := c.freed, (<-chan time.Time)(nil)
	for {
		select {
		case <-tick.C:
			c.refs.Tick()
			c.node.tasks.Tick()
			c.forgetSent()
			c.moveWaiting()
		case <-c.tell:
		case <-freed:
			freed, pause = nil, time.After(freedEvery)
		case <-pause:
			freed, pause = c.freed, nil
			continue
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

// loadFreed has tellLoad send the load soon.
func (c *cluster) loadFreed() {
	select {
	case c.freed <- struct{}{}:
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
	news := c.loads[k].Rest != l.Rest
	c.loads[k] = l
	c.gen++
	c.mu.Unlock()
	if news || c.node.tasks.Line().Waits.Load() != 0 {
		c.view.reported(k, &l, news)
	}
	if k != c.self() {
		c.moveWaiting()
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
