package system

import (
	"math"
	"time"

	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/system/member"
	"github.com/raysys/raysys/tasks"
)

// loadEvery is how often a node tells the others how busy it is, when that changed. Results of tasks carry the same, so
// this serves those that have sent nothing lately.
const loadEvery = 100 * time.Millisecond

// load is how busy a node said it is.
type load struct {
	queued, running int
	free            float64 // CPUs, below zero while resumed tasks overlap others
	mean            time.Duration
	grains          int
}

func (l load) append(dst []byte) []byte {
	dst = wire.AppendUvarint(dst, uint64(max(l.queued, 0)))
	dst = wire.AppendUvarint(dst, uint64(max(l.running, 0)))
	dst = wire.AppendUvarint(dst, uint64(max(l.free, 0)*1000))
	dst = wire.AppendUvarint(dst, uint64(max(l.mean, 0)))
	return wire.AppendUvarint(dst, uint64(max(l.grains, 0)))
}

func readLoad(r *wire.Reader) load {
	small := func() int { return int(min(r.Uvarint(), math.MaxInt32)) }
	return load{
		queued: small(), running: small(), free: float64(small()) / 1000,
		mean: time.Duration(min(r.Uvarint(), math.MaxInt64/2)), grains: small(),
	}
}

// load measures this node.
func (c *cluster) load() load {
	t := c.node.tasks.Load()
	return load{queued: t.Queued, running: t.Running, free: t.FreeCPU, mean: t.MeanTask, grains: c.node.grains.Hosted()}
}

// tellLoad sends the load to all peers whenever it changed.
func (c *cluster) tellLoad() {
	tick := time.NewTicker(loadEvery)
	defer tick.Stop()
	var last load
	for {
		select {
		case <-tick.C:
		case <-c.ctx.Done():
			return
		}
		now := c.load()
		if now == last {
			continue
		}
		last = now
		frame := now.append(nil)
		for _, p := range c.connected() {
			_ = p.Send(wire.Control, wire.KindLoad, frame) // one that is gone does not care
		}
		c.learnLoad(c.self(), now)
	}
}

// onLoad handles KindLoad.
func (p *peer) onLoad(frame []byte) error {
	r := wire.NewReader(frame)
	l := readLoad(&r)
	if err := r.Err(); err != nil {
		return err
	}
	p.c.learnLoad(p.key, l)
	p.c.node.tasks.PeerLoad(p, tasks.Load{Queued: l.queued, Running: l.running, FreeCPU: l.free, MeanTask: l.mean})
	return nil
}

func (c *cluster) learnLoad(k nodeKey, l load) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.loads[k] = l
	c.gen++
}

// taskInfo is what the task engine must know of a peer.
func (c *cluster) taskInfo(p *peer) tasks.PeerInfo {
	n, ok := c.member.View().Node(p.key.node)
	if !ok || n.Incarnation != p.key.incarnation {
		return tasks.PeerInfo{} // its key is not seen yet: it gets tasks once it is
	}
	if n.Info.Role == member.Driver && !n.Info.Serves {
		return tasks.PeerInfo{}
	}
	return tasks.PeerInfo{Resources: n.Info.Resources, Labels: n.Info.Labels}
}

