package grainengine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/tally"
)

// timer is one of grains.Every and After. Its alarm puts it into the mailbox, beyond the bound; its turn there is a call of the kind's
// method tick, which nobody waits for; and only then the alarm is set again.
type timer struct {
	act   *activation
	f     func(context.Context) error
	every time.Duration // 0: once
	alarm core.Alarm
	over  atomic.Bool
}

// timers are those of one activation that have not ended. They belong to its G: the end of that ends them.
type timers struct {
	changed atomic.Bool // undo has any

	mu   sync.Mutex // guards the rest
	list []*timer
	undo []timerChange // of the transaction in progress, in their order
}

// timerChange is a timer that a transaction began or stopped.
type timerChange struct {
	timer   *timer
	stopped bool
	waited  bool // for its alarm: else its mail is in the mailbox, or its own tick stopped it
}

// Every is grains.Every, and After with once.
func Every(ctx context.Context, d time.Duration, once bool, f func(context.Context) error) (stop func(), err error) {
	t, _, err := core.TurnOf(ctx)
	if err != nil {
		return nil, fmt.Errorf("timer: %w", err)
	}
	a, ok := t.Attached().(*activation)
	switch {
	case !ok || t.Kind() != core.TurnGrain || t.Base().Ended():
		return nil, fmt.Errorf("timer: %w: the context is not that of a turn of a grain", raysys.ErrNoRuntime)
	case d <= 0:
		return nil, fmt.Errorf("timer of %s: %w: every %v: the time must be above zero", t.Name(), raysys.ErrBadOption, d)
	case f == nil:
		return nil, fmt.Errorf("timer of %s: %w: the function is nil", t.Name(), raysys.ErrBadOption)
	}
	m := &timer{act: a, f: f, every: d}
	if once {
		m.every = 0
	}
	m.alarm.Ring = func() { a.post(&mail{msg: m}) } // also of one that was stopped: the transaction that did may be taken back
	all := a.timers.Load()
	if all == nil {
		a.timers.CompareAndSwap(nil, &timers{})
		all = a.timers.Load()
	}
	all.mu.Lock()
	all.list = append(all.list, m)
	all.noteLocked(timerChange{timer: m})
	all.mu.Unlock()
	m.set(d)
	if t.Base().Ended() { // this goroutine outlived its turn: the end of the G may not have seen the timer
		m.end()
		return nil, fmt.Errorf("timer of %s: %w: the turn has ended", t.Name(), raysys.ErrNoRuntime)
	}
	return m.stop, nil
}

func (m *timer) runtime() core.Runtime { return m.act.kind.engine.cfg.Hooks.Runtime() }

// set has the next tick come d from now.
func (m *timer) set(d time.Duration) {
	m.alarm.At = core.After(m.act.kind.engine.cfg.Now(), d)
	m.runtime().SetAlarm(&m.alarm)
	if m.over.Load() {
		m.runtime().ClearAlarm(&m.alarm)
	}
}

// stop ends the timer: a tick that has not begun does not run. With the transaction in progress it may be taken back.
func (m *timer) stop() {
	if m.over.Swap(true) {
		return
	}
	waited := m.runtime().ClearAlarm(&m.alarm)
	all := m.act.timers.Load()
	all.mu.Lock()
	defer all.mu.Unlock()
	all.list = slices.DeleteFunc(all.list, func(o *timer) bool { return o == m })
	all.noteLocked(timerChange{m, true, waited})
}

// end ends the timer for good.
func (m *timer) end() {
	m.over.Store(true)
	m.runtime().ClearAlarm(&m.alarm)
	all := m.act.timers.Load()
	all.mu.Lock()
	defer all.mu.Unlock()
	all.list = slices.DeleteFunc(all.list, func(o *timer) bool { return o == m })
	all.undo = slices.DeleteFunc(all.undo, func(c timerChange) bool { return c.timer == m })
}

// noteLocked notes what the transaction in progress did, if there is one. The caller has s.mu locked.
func (s *timers) noteLocked(c timerChange) {
	if transacting(c.timer.act) {
		s.undo = append(s.undo, c)
		s.changed.Store(true)
	}
}

// settle ends the transaction in progress for the timers, of which there may be none. Back takes back what it did: timers that it began are
// gone, and those that it stopped go on, at the times that they had.
func (s *timers) settle(back bool) {
	if s == nil || !s.changed.Load() {
		return
	}
	s.mu.Lock()
	undo := s.undo
	s.undo = nil
	s.changed.Store(false)
	s.mu.Unlock()
	if !back {
		return
	}
	for _, c := range slices.Backward(undo) {
		m := c.timer
		if !c.stopped {
			m.end()
			continue
		}
		s.mu.Lock()
		s.list = append(s.list, m)
		s.mu.Unlock()
		if m.over.Store(false); c.waited {
			m.runtime().SetAlarm(&m.alarm)
		}
	}
}

// end ends all of them; there may be none.
func (s *timers) end() {
	if s == nil {
		return
	}
	s.mu.Lock()
	list := slices.Clone(s.list)
	s.mu.Unlock()
	for _, m := range list {
		m.end()
	}
	s.settle(false)
}

// perform runs one tick as the activation's turn. The grain is as idle after it as before: ticks keep nothing awake.
func (m *timer) perform() (panicked any) {
	if m.over.Load() {
		return nil
	}
	a := m.act
	used := a.used.Load()
	defer func() { // also where the tick ends the goroutine
		a.used.Store(used)
		switch {
		case m.over.Load():
		case m.every == 0:
			m.end()
		default:
			m.set(m.every)
		}
	}()
	c := m.call()
	c.queueAt(a)
	return a.perform(c)
}

// call makes the record of a tick.
func (m *timer) call() *call {
	e, tick := m.act.kind.engine, m.act.kind.def.tick
	c := (*call)(tick.records(callHere))
	c.method, c.mail.msg = tick, c
	c.Future.Init(c, e.cfg.Hooks, e.hooks.Add(1), false) // no deadline
	*(**timer)(c.argAt()) = m
	return c
}

// tickMethod makes the method whose calls are the ticks of a kind's timers. It is in no table: nobody else calls it.
func (k *kind) tickMethod() *method {
	type tail = tailOf[*timer, none]
	return &method{
		kind: k, tick: true, entry: &core.Entry{Kind: "method", Name: k.name + ".timer", Table: k.entry.Table},
		value: core.TypeOf[none](), argType: core.TypeOf[*timer](), argOffset: unsafe.Offsetof(tail{}.arg),
		call: func(ctx context.Context, _ any, c *core.Future) error {
			m := (*tail)(unsafe.Pointer(c)).arg
			if m.over.Load() { // the grain began anew for this turn
				return nil
			}
			return m.f(ctx)
		},
		records: makeRecord[*timer, none], tally: &tally.Cache{},
		empty: func(c *core.Future) { (*tail)(unsafe.Pointer(c)).arg = nil },
	}
}

// any reports whether one has not ended.
func (s *timers) any() bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.list) > 0
}
