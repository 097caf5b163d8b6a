package taskengine

import (
	"reflect"

	"github.com/raysys/raysys/internal/core"
)

// Waiting returns the number of drivers that wait for room in the queue.
func (e *Engine) Waiting() int { return int(e.waiting.Load()) }

// QueuedBytes returns the bytes counted for arguments that are queued.
func (e *Engine) QueuedBytes() int { return int(e.bytes.Load()) }

// StopForwarder runs a forwarder that is told to stop while somebody wakes it. It reports whether one that sleeps
// beside it would never be woken again.
func (e *Engine) StopForwarder() (lost bool) {
	x := e.exchange()
	stop := make(chan struct{})
	close(stop)
	x.running.Add(1)
	x.wakeNow()
	x.run(stop)
	lost = x.state.Load() == awake && len(x.wake) == 0
	select {
	case <-x.wake:
	default:
	}
	x.state.Store(asleep)
	return lost
}

// RecipeBytes returns what the recipes of the node count for.
func (e *Engine) RecipeBytes() int64 { return e.lineage.used.Load() }

// Held returns the number of tasks that are entered as held.
func (e *Engine) Held() (n int) {
	e.held.each(func(*core.Future, int64) { n++ })
	return n
}

// Recorded returns the options that another node submits a recorded task with, which was submitted with o.
func Recorded(o core.Options) (core.Options, error) {
	t := recordedTask{Options: recordOptions(&o)}
	plan, err := recordedPlan()
	if err != nil {
		return o, err
	}
	body, err := plan.Append(nil, reflect.ValueOf(&t).Elem(), nil)
	if err != nil {
		return o, err
	}
	var read recordedTask
	if err := plan.Decode(body, reflect.ValueOf(&read).Elem(), nil); err != nil {
		return o, err
	}
	again := core.NewOptions[core.Option](nil)
	read.Options.set(&again)
	return again, nil
}

// Kept returns the number of turns of peers' tasks that wait here to be final.
func (e *Engine) Kept() (n int) {
	for _, p := range *e.exchange().peers.Load() {
		p.waiting.mu.Lock()
		n += len(p.waiting.turns)
		p.waiting.mu.Unlock()
	}
	return n
}

// Stalls reports whether the forwarder, which has found no room at a peer, waits for more answers now.
func (e *Engine) Stalls() bool {
	x := e.exchange()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.each(func(p *peer) { p.skip = false })
	return x.stall()
}

// Asks reports whether the engine has an alarm set that asks peers for room.
func (e *Engine) Asks() bool {
	o := &e.exchange().owed
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.asking
}
