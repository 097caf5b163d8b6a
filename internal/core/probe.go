package core

import "slices"

// A cycle of waits may pass through other nodes, which one look at this node does not show. A turn that may be part of
// one has its Prober look at all of them, after a pause, and again after longer pauses: most waits end before the
// first.

const (
	firstProbe = int64(50e6) // nanoseconds of waiting before the first look
	lastProbe  = 4 * int64(1e9)
)

// Prober looks for cycles of waits over nodes.
type Prober interface {
	// Away reports whether another node computes c, which has not settled. It is asked at each wait of a turn, so it
	// costs next to nothing.
	Away(c *Future) bool
	// Probe looks whether t can go on, and breaks the cycle if it is in one. It does not block.
	Probe(t *Turn)
}

// probe is the alarm of one wait.
type probe struct {
	alarm Alarm
	turn  *Turn
	block *Blocked
	pause int64
}

// watchFar has b, which t waits for, looked at by all nodes while it lasts. It returns nil where no cycle is possible:
// in each there is the turn of a grain, so it is enough that those look which are in one.
func (t *Turn) watchFar(b *Blocked) *probe {
	if !t.inGrain() {
		return nil
	}
	p := &probe{turn: t, block: b, pause: firstProbe}
	p.alarm.Ring = p.ring
	p.set()
	return p
}

func (p *probe) set() {
	rt := p.turn.job.Runtime
	p.alarm.At = rt.Now() + p.pause
	rt.SetAlarm(&p.alarm)
}

// ring may run while stop does; then it rings once more, for nothing.
func (p *probe) ring() {
	if p.turn.block.Load() != p.block {
		return
	}
	p.turn.job.Prober.Probe(p.turn)
	p.pause = min(4*p.pause, lastProbe)
	p.set()
}

func (p *probe) stop() { p.turn.job.Runtime.ClearAlarm(&p.alarm) }

// maxCallers bounds the callers that travel with a call. Probes find a cycle over more of them.
const maxCallers = 16

// Callers lists the turns of grains that t is, or was called under, the nearest first: those of this node that have
// not ended, and those of other nodes, whose state is not known here.
func (t *Turn) Callers() (ids []TaskID) {
	for s := t; s != nil && len(ids) < maxCallers; s = s.above() {
		switch b := s.base; {
		case b.kind == TurnGrain && s == b && s.trunk == nil && !b.ended.Load():
			ids = append(ids, b.id)
		case s == b:
			ids = append(ids, b.callers...)
		}
	}
	return ids[:min(len(ids), maxCallers)]
}

// CalledUnder reports whether x, the turn of a grain, is among the Callers of t that are known over another node.
func (t *Turn) CalledUnder(x *Turn) bool {
	for s := t; s != nil; s = s.above() {
		if s == s.base && slices.Contains(s.callers, x.id) {
			return true
		}
	}
	return false
}

// inGrain reports whether t is the turn of a grain, or was called under one.
func (t *Turn) inGrain() bool {
	for s := t; s != nil; s = s.above() {
		if s.base.kind == TurnGrain || len(s.base.callers) > 0 {
			return true
		}
	}
	return false
}

// IsBlocked reports whether the turn waits.
func (t *Turn) IsBlocked() bool { return t.base.block.Load() != nil }

// FromElsewhere reports whether turns of grains on other nodes are among the Callers of t.
func (t *Turn) FromElsewhere() bool {
	for s := t; s != nil; s = s.above() {
		if s == s.base && len(s.callers) > 0 {
			return true
		}
	}
	return false
}
