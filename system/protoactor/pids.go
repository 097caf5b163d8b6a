package protoactor

import (
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"
)

// forgetAfter: a PID that no request used for this long is forgotten, at the latest when it has passed twice. The next request asks
// the grain where the actor is, as the first did.
const forgetAfter = 5 * time.Minute

// pids are the PIDs of the actors that requests went to. proto.Actor's own cache, cluster.Cluster.PidCache, forgets none but those of
// members that left; so it stays empty, and two of its kind take turns: what is used moves to the newer one.
type pids struct {
	caches atomic.Pointer[[2]*cluster.PidCacheValue] // the newer one first
}

// turn forgets what was not used since the turn before, and begins another.
func (p *pids) turn() {
	next := &[2]*cluster.PidCacheValue{cluster.NewPidCache(), cluster.NewPidCache()}
	if was := p.caches.Load(); was != nil {
		next[1] = was[0]
	}
	p.caches.Store(next)
}

func (p *pids) get(identity, kind string) *actor.PID {
	c := p.caches.Load()
	pid, ok := c[0].Get(identity, kind)
	if ok {
		return pid
	}
	if pid, ok = c[1].Get(identity, kind); ok {
		c[0].Set(identity, kind, pid)
	}
	return pid
}

func (p *pids) set(identity, kind string, pid *actor.PID) {
	p.caches.Load()[0].Set(identity, kind, pid)
}

// remove forgets a PID, unless there is another for the identity by now.
func (p *pids) remove(identity, kind string, pid *actor.PID) {
	for _, c := range p.caches.Load() {
		c.RemoveByValue(identity, kind, pid)
	}
}

// leave forgets the actors of members that left.
func (p *pids) leave(members cluster.Members) {
	for _, m := range members {
		for _, c := range p.caches.Load() {
			c.RemoveByMember(m)
		}
	}
}
