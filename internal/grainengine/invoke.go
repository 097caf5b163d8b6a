package grainengine

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/detour"
	"github.com/raysys/raysys/internal/tally"
)

func (c *call) do(a *activation) (panicked any) {
	if a.tenure != nil && a.tenure.durable != nil {
		return c.doDurable(a)
	}
	if !c.Future.Start() {
		return nil
	}
	up := c.Future.Up()
	if refuseEnded(a, c) {
		return nil
	}
	panicked, err := c.invoke(a)
	if err == errKept {
		a.laters.Load().keepCall(c)
		return panicked
	}
	if a.tenure != nil {
		err = a.tenure.mayAnswer(c, err)
	}
	if t := c.Future.OwnTurn(); t != nil {
		t.End()
	}
	c.dropArg()
	if j := up.Job(); j.Inspect != nil {
		if err == nil {
			err = c.handOverResult()
		} else {
			err = j.Inspect.Fail(err)
		}
	}
	if err == nil {
		c.resolve()
		return panicked
	}
	// An error that only reports the call's own end is that end.
	if cause := c.cancelled(); cause != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		c.Future.Cancel(cause)
	} else {
		c.Future.Fail(err)
	}
	if c.Future.Failed() { // a value that is not answered is not kept
		c.Future.Forget()
	}
	return panicked
}

// refuseEnded cancels a call that has started, if nothing waits for it any more.
func refuseEnded(a *activation, c *call) bool {
	err := c.Future.Up().Cancelled()
	if err == nil && c.until != 0 && c.method.clock(&a.kind.engine.cfg)() >= c.until {
		err = fmt.Errorf("%s waited in the mailbox: %w", c.Name(), raysys.ErrDeadline)
	}
	if err == nil {
		return false
	}
	tallyOf(a.kind.engine, c.method).Ended(tally.Cancelled, 1)
	c.Future.Cancel(err)
	return true
}

func (c *call) cancelled() error {
	if t := c.Future.OwnTurn(); t != nil {
		return t.Cancelled()
	}
	return c.Future.Up().Cancelled()
}

// handOverResult is for strict mode.
func (c *call) handOverResult() error {
	return core.HandOver(c.Future.Up().Job(), "result of "+c.method.entry.Name, c.method.value, c.Future.ValueAt())
}

// invoke calls the method, which puts its result into the place of the value.
func (c *call) invoke(a *activation) (panicked any, err error) {
	normal := false
	of, stripe, began := tallyOf(a.kind.engine, c.method), stripeOf(a), int64(0)
	var event *tally.Event // where the turn is recorded
	if on := a.kind.engine.cfg.Tally.Recorder(); on != nil {
		if event = on.Take(stripe); event != nil {
			event.Begin(of, &c.Future, 0, a.kind.engine.cfg.Now())
		}
	}
	defer func() {
		if normal {
			return
		}
		if a.tenure != nil {
			a.tenure.markUnsure()
		}
		if panicked = recover(); panicked != nil {
			err = c.taskError(&raysys.PanicError{Value: core.SoundPanic(panicked)}, debug.Stack())
			o := count(of, c, tally.Panic, err)
			if event != nil {
				event.End(o, a.kind.engine.cfg.Now())
			}
			if tell := c.Future.Up().Job().Panicked; tell != nil {
				tell(c.Name(), err)
			}
			if c.method.later {
				err = a.laters.Load().returned(c, err)
			}
			return
		}
		if t := c.Future.OwnTurn(); t != nil {
			t.End()
		}
		switch {
		case a.tenure == nil || a.tenure.durable == nil:
		case c.method.transacts():
			a.tenure.durable.rollBack(c.Future.OwnTurn())
		default: // a read, maybe beside a transaction that waits
			a.tenure.durable.dropTells(c.Future.OwnTurn())
		}
		err = c.taskError(errGoexit, debug.Stack())
		o := count(of, c, tally.Error, err)
		if event != nil {
			event.End(o, a.kind.engine.cfg.Now())
		}
		if c.method.later && a.laters.Load().returned(c, err) == errKept {
			a.laters.Load().keepCall(c)
			return
		}
		c.Future.Fail(err)
	}()
	if s := a.holding.slot(); s != nil {
		c.Future.SetSlot(s)
	}
	if of.Timed(stripe) {
		began = a.kind.engine.cfg.Now()
	}
	if d := a.kind.detour; d == nil {
		err = c.method.call(&c.Future, a.state, &c.Future)
	} else {
		err = around(c, a, d)
	}
	normal = true
	if began != 0 {
		of.Sampled(a.kind.engine.cfg.Now()-began, tally.Sample)
	}
	o := tally.OK
	switch {
	case err == nil && !c.Future.Settled():
		of.OK(stripe)
	case err == nil:
		o = tally.Cancelled // from outside, while it ran
		of.Ended(o, 1)
	case err != errKept: // else Later counts it
		err = c.taskError(core.Sound(err), nil)
		o = count(of, c, tally.Error, err)
	}
	if event != nil {
		event.End(o, a.kind.engine.cfg.Now())
	}
	if c.method.later {
		err = a.laters.Load().returned(c, err)
	}
	return nil, err
}

// around calls the method, or what stands in for it, inside the filters of the kind and the node. A tick passes none.
func around(c *call, a *activation, d *detour.Detour) error {
	m := c.method
	if m.tick {
		return m.call(&c.Future, a.state, &c.Future)
	}
	fake, kept := d.Fake(m.entry), false
	w := core.NewExecuted(m.entry.Name, a.key, func() any {
		if m.argType.Nothing() {
			return nil
		}
		return m.argType.At(c.argAt()).Addr().Interface()
	})
	err := detour.Run(&c.Future, d.Filters, w, func(ctx context.Context) (err error) {
		if fake != nil {
			err = fake(ctx, a.key, c.argAt(), c.Future.ValueAt())
		} else {
			err = m.call(ctx, a.state, &c.Future)
		}
		if kept = err == errKept; kept {
			return nil
		}
		if err == nil {
			w.Returned(&c.Future)
		} else if !m.later { // the value of a turn before it, which did not count
			c.Future.Forget()
		}
		return err
	})
	if err == nil && kept {
		return errKept
	}
	return err
}

// tallyOf is what counts the calls of the method.
func tallyOf(e *Engine, m *method) *tally.Function {
	return m.tally.Of(e.cfg.Tally, tally.CallKind, m.entry.Name)
}

// stripeOf says in which of a method's counters the calls of an activation count.
func stripeOf(a *activation) uint { return uint(uintptr(unsafe.Pointer(a)) >> 9) }

// count counts a call that failed with err, which says where it comes from, and says how it ended. An error that only reports the call's own
// end is that end.
func count(of *tally.Function, c *call, o tally.Outcome, err error) tally.Outcome {
	if o == tally.Error && c.cancelled() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		of.Ended(tally.Cancelled, 1)
		return tally.Cancelled
	}
	why := err
	var failed *raysys.TaskError
	if errors.As(err, &failed) {
		why = failed.Err
	}
	of.Failed(o, time.Now(), func() tally.Example {
		return tally.Example{Text: why.Error(), ID: c.Future.ID().String(), Work: c.Name(), Stack: raysys.Stack(err)}
	})
	return o
}

// clock is exact for deadlines that the program chose, and else the cheap one.
func (m *method) clock(cfg *Config) func() int64 {
	if m.opts.Deadline != 0 {
		return cfg.Now
	}
	return cfg.Rough
}

var errGoexit = errors.New("the method ended its goroutine (runtime.Goexit, or testing's FailNow): return an error instead")

// taskError says where err came from. stack is that of a panic in this call, else nil: then the one that err brings is
// taken.
func (c *call) taskError(err error, stack []byte) error {
	if stack == nil {
		stack = raysys.Stack(err)
	}
	return &raysys.TaskError{
		Task: c.Future.ID(), Function: c.Name(), Node: c.Future.Up().Job().Node, Attempt: 1, Err: err, Stack: stack,
	}
}
