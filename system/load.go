package system

import (
	"time"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/loadreport"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/taskengine"
	"github.com/raysys/raysys/internal/wire"
)

// loadEvery is how often a node sends its load to the others, when it has changed. Results of tasks carry the load too,
// so this is for nodes that have sent it no tasks lately.
const loadEvery = 100 * time.Millisecond

// restEvery is how often it is sent before the tick, at most, since something else than CPU was taken or has become free: work may
// wait for it at another node, or is sent here by nodes that take it to be free.
const restEvery = 20 * time.Millisecond

// lookEvery is how often a node looks whether another has room for what waits in its line, while something does, beside when others
// report: it may have known of the room before the work came.
const lookEvery = 10 * time.Millisecond

// tellLoad sends the load to all peers when it has changed: at each tick, and at once when the task engine calls
// loadChanged, and soon after it calls restChanged. While work waits for resources it looks where there is room for that.
func (c *cluster) tellLoad() {
	tick := time.NewTicker(loadEvery)
	defer tick.Stop()
	var last loadreport.Load
	lastRooms := ""
	rest, pause := c.rest, (<-chan time.Time)(nil)
	short, look := c.short, (<-chan time.Time)(nil)
	for {
		select {
		case <-tick.C:
			c.refs.Tick()
			c.node.tasks.Tick()
			c.forgetSent()
			c.moveWaiting()
		case <-c.tell:
		case <-rest:
			rest, pause = nil, time.After(restEvery)
		case <-pause:
			rest, pause = c.rest, nil
			continue
		case <-short:
			short, look = nil, time.After(lookEvery)
			continue
		case <-look:
			c.forgetSent()
			c.moveWaiting()
			if look = time.After(lookEvery); c.node.tasks.Line().Still() {
				short, look = c.short, nil
			}
			continue
		case <-c.ctx.Done():
			return
		}
		peers := c.mesh.Connected()
		of := make([]wire.Peer, len(peers))
		for i, p := range peers {
			of[i] = refs.Of(p)
		}
		now, rooms, received, news := c.node.tasks.Report(of)
		if now == last && !news && rooms == lastRooms {
			continue
		}
		last, lastRooms = now, rooms
		for i, p := range peers {
			if p.Send(wire.Control, wire.KindLoad, loadreport.Append(nil, now, rooms, received[i])) == nil { // a peer that is gone needs no load
				p.Flush()
			}
		}
		c.learnLoad(c.self(), now, nil, 0)
	}
}

// loadChanged wakes tellLoad.
func (c *cluster) loadChanged() {
	select {
	case c.tell <- struct{}{}:
	default:
	}
}

// restChanged has tellLoad send the load soon.
func (c *cluster) restChanged() {
	select {
	case c.rest <- struct{}{}:
	default:
	}
}

// waitsShort is called when work waits for resources: tellLoad looks after it.
func (c *cluster) waitsShort() {
	select {
	case c.short <- struct{}{}:
	default:
	}
}

// onLoad handles KindLoad.
func (c *cluster) onLoad(p *refs.Session, frame []byte) error {
	r := wire.NewReader(frame)
	l, said, received, err := loadreport.Read(&r)
	if err != nil {
		return err
	}
	rooms, err := loadreport.ReadRooms(said)
	if err != nil {
		return err
	}
	nameModels(rooms, c.mesh.Info(p.Key()).Devices)
	if c.node.groups.room.report(p.Key(), rooms, c.node.tasks.CountedRoaming(p, received.Roaming), c.node.wheel.Now()) {
		c.node.tasks.RetryBundles()
	}
	c.learnLoad(p.Key(), l, p, received.Tasks)
	c.node.tasks.PeerLoad(p, l)
	return nil
}

// learnLoad takes in what node k reports: p, which counts so many tasks of this node, or this node itself.
func (c *cluster) learnLoad(k core.NodeKey, l loadreport.Load, p *refs.Session, received uint64) {
	c.view.mu.Lock() // what is counted is taken from what is free by one change
	c.mu.Lock()
	news, freer := c.loads[k].Rest != l.Rest, l.Free > c.loads[k].Free
	c.loads[k] = l
	c.reports.add(k)
	c.mu.Unlock()
	counted := p != nil && c.node.tasks.Counted(p, received)
	forgot := false
	if news {
		delete(c.view.sent, k)
	} else {
		forgot = c.view.forget(k, c.node.wheel.Now())
	}
	if news || freer || counted || forgot || c.node.tasks.Line().Waits.Load() != 0 {
		c.enterReport(k, &l)
	}
	c.view.mu.Unlock()
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
