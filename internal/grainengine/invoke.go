package grainengine

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

func (c *call) do(a *activation) (panicked any) {
	if a.tenure != nil && a.tenure.durable != nil {
		return c.doDurable(a)
	}
	if !c.Future.Start() {
		return nil
	}
	up := c.Future.Up()
	if err := up.Cancelled(); err != nil {
		c.Future.Cancel(err)
		return nil
	}
	if c.until != 0 && c.method.clock(&a.kind.engine.cfg)() >= c.until {
		c.Future.Cancel(fmt.Errorf("%s waited in the mailbox: %w", c.Name(), raysys.ErrDeadline))
		return nil
	}
	panicked, err := c.invoke(a)
	if err == errKept {
		a.keepCall(c)
		return panicked
	}
	if a.tenure != nil {
		err = a.mayAnswer(c, err)
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
	defer func() {
		if normal {
			return
		}
		if a.tenure != nil {
			a.tenure.markUnsure()
		}
		if panicked = recover(); panicked != nil {
			err = c.taskError(&raysys.PanicError{Value: core.SoundPanic(panicked)}, debug.Stack())
			if tell := c.Future.Up().Job().Panicked; tell != nil {
				tell(c.Name(), err)
			}
			if c.method.later {
				err = a.returned(c, err)
			}
			return
		}
		if t := c.Future.OwnTurn(); t != nil {
			t.End()
		}
		if a.tenure != nil && a.tenure.durable != nil {
			a.rollBack()
		}
		err = c.taskError(errGoexit, debug.Stack())
		if c.method.later && a.returned(c, err) == errKept {
			a.keepCall(c)
			return
		}
		c.Future.Fail(err)
	}()
	if s := a.slot(); s != nil {
		c.Future.SetSlot(s)
	}
	err = c.method.call(a.state, &c.Future)
	normal = true
	if err != nil && err != errKept {
		err = c.taskError(core.Sound(err), nil)
	}
	if c.method.later {
		err = a.returned(c, err)
	}
	return nil, err
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
