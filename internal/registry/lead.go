package registry

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/raysys/raysys/internal/shardlog"
)

// Lead begins to serve a shard that this node leads.
func (r *Registry) Lead(n int, s *shardlog.Shard) {
	props := actor.PropsFromProducer(func() actor.Actor { return newLeader(r, s) })
	pid := r.cfg.Actors.Root.SpawnPrefix(props, "shard")
	r.mu.Lock()
	r.led[n] = &ledShard{s, pid}
	// Registry.Reap is called for nodes that die from now on. The leader before this one may have died before it reaped
	// an earlier one.
	r.cfg.Actors.Root.Send(pid, &reap{})
	r.mu.Unlock()
	r.retry(n)
}

// StepDown ends serving a shard that was released, or of which another node deposed this one. It returns once the
// requests that the leader had are answered or wait for the next leader.
func (r *Registry) StepDown(n int, s *shardlog.Shard) {
	r.mu.Lock()
	l := r.led[n]
	if l == nil || l.shard != s {
		r.mu.Unlock()
		return
	}
	delete(r.led, n)
	r.mu.Unlock()
	_ = r.cfg.Actors.Root.PoisonFuture(l.pid).Wait()
	r.retry(n)
}

// Led lists the shards that this node serves.
func (r *Registry) Led() map[int]*shardlog.Shard {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := make(map[int]*shardlog.Shard, len(r.led))
	for n, l := range r.led {
		m[n] = l.shard
	}
	return m
}

// Reap has the leaders of this node remove from their shards what belongs to incarnations that are dead.
func (r *Registry) Reap() {
	r.mu.Lock()
	pids := make([]*actor.PID, 0, len(r.led))
	for _, l := range r.led {
		pids = append(pids, l.pid)
	}
	r.mu.Unlock()
	for _, pid := range pids {
		r.cfg.Actors.Root.Send(pid, &reap{})
	}
}
