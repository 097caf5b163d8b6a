package taskengine

import (
	"sync/atomic"
	"time"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/goroutines"
)

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

// lacksCPU is called when a task may wait and no CPU is free. It costs one load where no activation holds CPU.
func (e *Engine) lacksCPU() {
	if e.line.Yielding.Load() == 0 || e.cfg.MakeRoom == nil || !e.yielding.armed.CompareAndSwap(false, true) {
		return
	}
	e.yielding.alarm.Ring = e.askForCPU
	e.yielding.alarm.At = e.now() + int64(yieldPause)
	e.cfg.Runtime.SetAlarm(&e.yielding.alarm)
}

// askForCPU runs on the clock's goroutine.
func (e *Engine) askForCPU() {
	if !e.needsCPU() {
		e.yielding.armed.Store(false)
		if e.needsCPU() { // since the look before, and lacksCPU found it armed
			e.lacksCPU()
		}
		return
	}
	e.cfg.Pool.Go(goroutines.Func(func() {
		waits := e.queue.Len()
		if x := e.net.Load(); x != nil {
			waits += x.inbound.Len() + int(x.deferred.count.Load())
		}
		e.cfg.MakeRoom(min(waits, int(e.line.Total()/oneCPU)))
	}))
	e.yielding.alarm.At = e.now() + int64(yieldPause)
	e.cfg.Runtime.SetAlarm(&e.yielding.alarm)
}

// needsCPU reports whether tasks wait for a CPU while activations hold some.
func (e *Engine) needsCPU() bool {
	return e.line.Yielding.Load() != 0 && e.line.CPU().Load() < oneCPU && e.waits() && !e.closed.Load()
}
