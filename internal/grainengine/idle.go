package grainengine

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// ticksPerIdle is how many ticks of the idle clock make one idle period: an activation goes within a sixteenth after
// it. Each tick looks at all activations of the kind.
const ticksPerIdle = 16

// arm starts the kind's idle clock. It runs only while there are activations, so a node without grains has no timer.
func (k *boundKind) arm() {
	k.engine.lookAtTurns(lookEvery)
	k.timer.Lock()
	defer k.timer.Unlock()
	if k.armed == nil && !k.engine.closed.Load() && !k.def.Keep {
		k.armed = time.AfterFunc(k.def.Idle/ticksPerIdle, k.tick)
	}
}

func (k *boundKind) tick() {
	k.timer.Lock()
	k.armed = nil
	k.timer.Unlock()
	now := k.ticks.Add(1)
	for _, a := range k.activations() {
		if used := a.used.Load(); now-used > ticksPerIdle && !a.busy.Load() && a.laters.Load().keptCalls() == 0 {
			a.post(&mail{msg: passivate{ticks: used}})
		}
	}
	if k.live.Load() > 0 {
		k.arm()
	}
}

// activations lists the activations of the kind. It copies stripe by stripe, so that no lock is taken for long.
func (k *boundKind) activations() (all []*activation) {
	for i := range k.table {
		s := &k.table[i]
		s.RLock()
		for _, a := range s.activations {
			all = append(all, a)
		}
		s.RUnlock()
	}
	k.pools.Range(func(_, v any) bool {
		p := v.(*pool)
		p.mu.Lock()
		for _, a := range p.all {
			all = append(all, a)
		}
		p.mu.Unlock()
		return true
	})
	return all
}

// stop ends the idle clock and asks every activation to stop.
func (k *boundKind) stop() {
	k.timer.Lock()
	if k.armed != nil {
		k.armed.Stop()
		k.armed = nil
	}
	k.timer.Unlock()
	for _, a := range k.activations() {
		a.stop()
	}
}

// stop ends an activation of an engine that closes. An idle one for whose end nothing is to run goes at once: with hundreds of
// thousands of them, a goroutine and four messages each took longer than a program has for its end.
func (a *activation) stop() {
	reads := a.busy.CompareAndSwap(false, true) // then this goroutine is the mailbox's reader
	if reads && a.endsUnheard() {
		a.kind.engine.cfg.Actors.ProcessRegistry.Remove(actor.NewPID(a.kind.engine.cfg.Actors.Address(), a.id))
		a.ended()
		return
	}
	a.post(&mail{msg: passivate{force: true}})
	if reads {
		a.kind.engine.cfg.Pool.Go(&a.mailbox)
	}
}

// endsUnheard reports whether neither the grain nor an actor hears of the activation's end, and nothing waits in it. Its reader asks.
func (a *activation) endsUnheard() bool {
	_, hears := a.state.(deactivator)
	durable := a.tenure != nil && a.tenure.durable != nil // it has calls to write
	return !hears && !durable && !a.watched && !a.suspended && a.pool == nil && a.inner.Load() == 0 && a.sysCount.Load() == 0 &&
		a.head.Load().next.Load() == nil
}
