package placing

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

// TellLoad sends the load to all peers when it has changed: at each tick, and at once when the task engine calls
// LoadChanged, and soon after it calls RestChanged. While work waits for resources it looks where there is room for that.
func (pl *Placer) TellLoad() {
	tick := time.NewTicker(loadEvery)
	defer tick.Stop()
	var last loadreport.Load
	lastRooms := ""
	rest, pause := pl.rest, (<-chan time.Time)(nil)
	short, look := pl.short, (<-chan time.Time)(nil)
	for {
		select {
		case <-tick.C:
			pl.Refs.Tick()
			pl.tasks.Tick()
			pl.forgetSent()
			pl.MoveWaiting()
		case <-pl.tell:
		case <-rest:
			rest, pause = nil, time.After(restEvery)
		case <-pause:
			rest, pause = pl.rest, nil
			continue
		case <-short:
			short, look = nil, time.After(lookEvery)
			continue
		case <-look:
			pl.forgetSent()
			pl.MoveWaiting()
			if look = time.After(lookEvery); pl.tasks.Line().Still() {
				short, look = pl.short, nil
			}
			continue
		case <-pl.Runner.Context().Done():
			return
		}
		peers := pl.Mesh.Connected()
		of := make([]wire.Peer, len(peers))
		for i, p := range peers {
			of[i] = refs.Of(p)
		}
		now, rooms, received, news := pl.tasks.Report(of)
		if now == last && !news && rooms == lastRooms {
			continue
		}
		last, lastRooms = now, rooms
		for i, p := range peers {
			if p.Send(wire.Control, wire.KindLoad, loadreport.Append(nil, now, rooms, received[i])) == nil { // a peer that is gone needs no load
				p.Flush()
			}
		}
		pl.learnLoad(pl.self(), now, nil, 0)
	}
}

// LoadChanged wakes TellLoad.
func (pl *Placer) LoadChanged() {
	select {
	case pl.tell <- struct{}{}:
	default:
	}
}

// RestChanged has TellLoad send the load soon.
func (pl *Placer) RestChanged() {
	select {
	case pl.rest <- struct{}{}:
	default:
	}
}

// WaitsShort is called when work waits for resources: TellLoad looks after it.
func (pl *Placer) WaitsShort() {
	select {
	case pl.short <- struct{}{}:
	default:
	}
}

// OnLoad handles KindLoad.
func (pl *Placer) OnLoad(p *refs.Session, frame []byte) error {
	r := wire.NewReader(frame)
	l, said, received, err := loadreport.Read(&r)
	if err != nil {
		return err
	}
	rooms, err := loadreport.ReadRooms(said)
	if err != nil {
		return err
	}
	nameModels(rooms, pl.Mesh.Info(p.Key()).Devices)
	if pl.groups.room.report(p.Key(), rooms, pl.tasks.CountedRoaming(p, received.Roaming), pl.Wheel.Now()) {
		pl.tasks.RetryBundles()
	}
	pl.learnLoad(p.Key(), l, p, received.Tasks)
	pl.tasks.PeerLoad(p, l)
	return nil
}

// learnLoad takes in what node k reports: p, which counts so many tasks of this node, or this node itself.
func (pl *Placer) learnLoad(k core.NodeKey, l loadreport.Load, p *refs.Session, received uint64) {
	pl.view.mu.Lock() // what is counted is taken from what is free by one change
	pl.mu.Lock()
	news, freer := pl.loads[k].Rest != l.Rest, l.Free > pl.loads[k].Free
	pl.loads[k] = l
	pl.reports.add(k)
	pl.mu.Unlock()
	counted := p != nil && pl.tasks.Counted(p, received)
	forgot := false
	if news {
		delete(pl.view.sent, k)
	} else {
		forgot = pl.view.forget(k, pl.Wheel.Now())
	}
	if news || freer || counted || forgot || pl.tasks.Line().Waits.Load() != 0 {
		pl.enterReport(k, &l)
	}
	pl.view.mu.Unlock()
	if k != pl.self() {
		pl.MoveWaiting()
	}
}

// Offer is what a node with this record offers to the task engines of others: a driver offers nothing.
func Offer(i member.Info) taskengine.PeerInfo {
	if !i.Works() {
		return taskengine.PeerInfo{}
	}
	return taskengine.PeerInfo{Resources: i.Resources}
}
