package taskengine

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/goroutines"
	"github.com/raysys/raysys/internal/ledger"
	"github.com/raysys/raysys/internal/runqueue"
	"github.com/raysys/raysys/internal/tally"
)

// worker is one actor that runs tasks. It holds CPUs from the message that starts it until it finds no more tasks,
// and has no goroutine while it is idle.
type worker struct {
	engine  *Engine
	pid     *actor.PID
	slot    *core.CPUSlot // of the current job and those before it that held as much
	noted   *tally.Slot   // of slot
	meter   meter
	inbound bool          // the last task was one of another node's
	corked  *peer         // by the answer to that one; nil when there is none
	charge  ledger.Charge // for the last task, where others waited
}

// job is the one message a worker understands.
type job struct {
	pull   bool         // take from the run queue until it is empty
	future *core.Future // or run this one
	hold   *ledger.Hold // of future; nil for one that does not run any more
	ran    bool         // future has run
}

// runner is a Work that the engine can run once Future.Start has claimed it.
type runner interface {
	core.Work
	run(s *core.CPUSlot)
}

// Receive implements actor.Actor.
func (w *worker) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		w.pid = ctx.Self()
	case *job:
		w.work(m)
	}
}

// work ends in ended, also when user code ends the goroutine by runtime.Goexit: then this worker is lost with its
// mailbox, and a new one takes its place.
func (w *worker) work(j *job) {
	returned := false
	defer func() { w.ended(j, returned) }()
	var cpu int64
	var pool core.CPUPool
	if j.pull {
		cpu = oneCPU
	} else if j.hold != nil {
		cpu, pool = j.hold.Need().CPU, j.hold.Pool()
	}
	// A goroutine that an earlier task left behind in a Get keeps the slot it gave its CPU from.
	if w.slot == nil || w.slot.CPU != cpu || w.slot.Pool != nil || pool != nil || w.slot.Blocked.Load() != 0 {
		w.forgetSlot()
		w.slot = &core.CPUSlot{CPU: cpu, Pool: pool}
		w.noted = w.engine.slots.New(w.slot, false)
		if pool != nil {
			w.slot.Within = j.hold.Need().Bundle.Children()
		}
	}
	w.noted.Alone.Store(!j.pull)
	if j.pull {
		w.pull()
	} else if j.ran = j.future.Start(); j.ran {
		w.slot.Waited.Store(false)
		if devices := w.engine.line.Devices(j.hold); len(devices) > 0 {
			j.future.TurnFor().SetDevices(devices)
		}
		w.run(j.future.Work().(runner))
		w.noted.AddUp(0, 0)
		w.noted.Rest()
		w.uncork(true)
	} else {
		w.engine.started(0)
	}
	returned = true
}

// forgetSlot is called when nothing runs on the slot of the worker any more.
func (w *worker) forgetSlot() {
	if w.noted != nil {
		w.noted.Rest()
		w.engine.slots.Drop(w.noted)
	}
}

func (w *worker) ended(j *job, returned bool) {
	e := w.engine
	e.mu.Lock()
	// Keep as many idle as there are CPUs; those made while tasks were blocked go at once.
	keep := returned && !e.closed.Load() && len(e.idle) < int(e.line.Total()/oneCPU)+1
	if keep {
		e.idle = append(e.idle, w)
	} else {
		e.live--
	}
	e.mu.Unlock()
	if !keep {
		w.forgetSlot()
	}
	switch {
	case !returned:
		e.passOn(w.slot)
		e.cfg.Actors.ProcessRegistry.Remove(w.pid) // its mailbox is gone and would never see a Stop
	case !keep:
		e.cfg.Actors.Root.Stop(w.pid)
	}
	if j.pull {
		e.line.GiveCPU(oneCPU)
	} else {
		e.endShaped(j, w.slot)
	}
	e.mu.Lock()
	e.busy--
	if e.busy == 0 && e.allIdle != nil {
		close(e.allIdle)
		e.allIdle = nil
	}
	e.mu.Unlock()
	e.checkDrained()
}

// lingering is how often a worker that found the queue empty looks again before it goes idle: some microseconds,
// which spares a stream of small tasks the wake-up of a worker for each. On a single processor no goroutine can
// submit meanwhile, and another process that shares it waits: a task and its result between two nodes took 49 us
// instead of 31.
func lingering() int {
	if runtime.GOMAXPROCS(0) == 1 {
		return 0
	}
	return 64
}

// pull runs queued tasks until there are none, or until its CPU is owed to others.
func (w *worker) pull() {
	e := w.engine
	looking := true // it was started as the one that searches
	defer func() {
		w.charged() // also a task that has ended the goroutine
		if looking {
			e.searching.Store(0)
		}
		w.meter.began = 0
		w.noted.AddUp(0, 0)
		w.noted.Rest()
		if x := e.net.Load(); x != nil {
			w.rest(x)
			x.serve(w.slot, true) // the next holder of the CPU sets it again
		}
	}()
	for tries := 0; ; {
		x := e.net.Load()
		c := w.next(x)
		if c == nil {
			w.meter.rest(e, w.noted)
			if x != nil {
				w.rest(x)
			}
			if !looking {
				if !e.searching.CompareAndSwap(0, 1) {
					return // another worker looks
				}
				looking = true
			}
			if tries++; tries > e.linger || e.closed.Load() {
				looking = false
				e.searching.Store(0)
				// A task pushed after the last look found searching set, and woke no worker.
				if !e.waits() || !e.searching.CompareAndSwap(0, 1) {
					return
				}
				looking, tries = true, 0
				continue
			}
			for range 30 {
				if e.waits() {
					break
				}
			}
			if !e.waits() {
				runtime.Gosched()
			}
			continue
		}
		tries = 0
		w.uncork(false) // the next task may take long
		if e.waiting.Load() != 0 {
			e.signalRoom() // a queue place is free, also when the task was cancelled or ran in place
		}
		if looking {
			looking = false
			e.searching.Store(0)
			if e.waits() {
				e.wake() // there is more than one task: let the next worker come
			}
		}
		if b, ok := c.Work().(batch); ok {
			w.slot.Batch.Store(c)
			if w.meter.began == 0 {
				w.meter.begin(max(e.now(), 1), 1, w.noted) // no task of it would be timed
			}
			all := b.runAll(w.slot, w.done)
			w.slot.Batch.Store(nil)
			w.charged()
			if !all {
				e.push(c)
			}
			if w.owes() {
				return
			}
			continue
		}
		runs := c.Start() // else it was cancelled, or runs in place
		if runs {
			w.meter.take(e, w.noted)
			w.run(c.Work().(runner))
		}
		w.charged()
		if runs {
			w.meter.tick(e, w.slot, w.noted, c)
		}
		if w.owes() {
			return
		}
	}
}

// next takes a task from the queues: the node's own and those of others by turns, so that neither waits for all of the
// other.
func (w *worker) next(x *exchange) (c *core.Future) {
	if w.engine.order.Mixed() {
		return w.nextOfMixed(x)
	}
	if x == nil {
		return w.engine.queue.Pop()
	}
	if !w.inbound {
		c = x.inbound.Pop()
	}
	w.inbound = c != nil
	if c == nil {
		c = x.pop()
	}
	if c == nil {
		c = x.inbound.Pop()
		w.inbound = c != nil
	}
	if c != nil {
		x.serve(w.slot, !w.inbound)
	}
	return c
}

// nextOfMixed is next where tasks of several jobs or classes wait.
func (w *worker) nextOfMixed(x *exchange) (c *core.Future) {
	o, own := &w.engine.order, w.engine.queue
	if x == nil {
		c, _ = o.Pop(own, nil, &w.charge)
		return c
	}
	w.inbound = false
	if x.deferred.count.Load() > 0 && !o.Above(core.Normal) {
		c = x.deferred.pop(x.e)
	}
	if c == nil {
		var from *runqueue.Queue
		c, from = o.Pop(own, x.inbound, &w.charge)
		w.inbound = from == x.inbound
	}
	if c == nil && x.deferred.count.Load() > 0 { // another worker took what was above
		c = x.deferred.pop(x.e)
	}
	if c != nil {
		x.serve(w.slot, !w.inbound)
	}
	return c
}

// charged says that the last task has returned.
func (w *worker) charged() {
	if w.charge.Runs() {
		w.engine.line.Shares().End(&w.charge, w.engine.now())
	}
}

// rest is called when there is no task: what is to be sent goes now.
func (w *worker) rest(x *exchange) {
	x.serve(w.slot, false)
	x.workerIdle()
	w.uncork(true)
	x.flush()
}

// run runs a task. The answer to another node's is sent, at the latest, when the next begins.
func (w *worker) run(work runner) {
	work.run(w.slot)
	if a, ok := work.(*inboundTask); ok {
		w.corked = a.handed()
	}
}

// uncork lets the answer go that run has left: at once, or by the peer's writer.
func (w *worker) uncork(now bool) {
	if p := w.corked; p != nil {
		w.corked = nil
		p.uncork(now)
	}
}

// done is called after each task of a batch; see yields.
func (w *worker) done() bool {
	w.meter.tick(w.engine, w.slot, w.noted, w.slot.Batch.Load())
	return w.yields()
}

// yields reports whether the worker leaves the rest of a batch: its CPU is due to others, or order says which task is next.
func (w *worker) yields() bool { return w.engine.order.Mixed() || w.owes() }

// owes reports whether the worker's CPU is due to others: to tasks that resumed after a wait, or to a task that
// gathers several CPUs.
func (w *worker) owes() bool {
	e := w.engine
	return e.line.CPU().Load() < 0 || (e.line.Waits.Load() != 0 && e.line.Reserves())
}

// batch is the one queue entry of many tasks: Map puts one per CPU into the queue, and each worker that takes one
// shares in the tasks until none is left (true), or until yield says that its CPU is due to others (false).
type batch interface {
	runAll(s *core.CPUSlot, yield func() bool) bool
	hasMore() bool // there are tasks that no worker has taken
	// take gives the next of them to the caller, who must start it; nil when none is left.
	take() *core.Future
	// rest lists those that none has taken, to be looked at only.
	rest() []*core.Future
	entry() *core.Entry
}

// Activations hold CPUs as long as they are there. While tasks of one CPU wait and none is free, idle activations are asked for theirs, as
// they are by work that waits in the line.
//
//	spill ──► an activation has CPU: alarm ──► still so: Config.MakeRoom, alarm again

// yieldPause is how long tasks wait before activations are asked, and how often. An activation that has had a call in that time is not
// idle.
const yieldPause = 100 * time.Millisecond

type yielding struct {
	alarm core.Alarm
	armed atomic.Bool
}

// dispatcher runs the workers' mailboxes on kept goroutines.
type dispatcher struct{ pool *goroutines.Pool }

// Schedule implements actor.Dispatcher.
func (d dispatcher) Schedule(f func()) { d.pool.Go(goroutines.Func(f)) }

// Throughput implements actor.Dispatcher.
func (d dispatcher) Throughput() int { return 300 }
