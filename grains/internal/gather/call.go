package gather

import (
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// Call is the call of one caller, a part of the record that has its future and its argument.
type Call struct {
	Record any          // what it is a part of
	Future *core.Future // of its answer

	batch *batch
	until int64        // its deadline on the runtime's clock, 0 for none
	above core.Watcher // of the turn that made it
}

// Answers reports whether the call still waits for its answer: then the caller puts that into the place of the future's value and calls
// Answered. Until then the future is pending, since a search for cycles asks only such work what it waits for.
func (c *Call) Answers() bool {
	c.left()
	return c.Future.Start()
}

// Answered ends the call with the value that is in place.
func (c *Call) Answered() { c.Future.Resolve() }

// Refused ends the call with an error that the method returned for it alone.
func (c *Call) Refused(err error) {
	c.fail(&raysys.TaskError{Task: c.Future.ID(), Function: c.Name(), Attempt: 1, Err: err, Stack: raysys.Stack(err)})
}

func (c *Call) fail(err error) {
	c.left()
	c.Future.Phase() // a call whose own deadline has passed ends by that
	c.Future.Fail(err)
}

// left ends the watch for the caller's turn.
func (c *Call) left() { c.Future.Up().Unwatch(&c.above) }

func (c *Call) callerEnded() { c.Future.Cancel(c.Future.Up().Cancelled()) }

// Stopped implements core.Stoppable: the caller has given up, or the deadline has passed. The others go on.
func (c *Call) Stopped() {
	c.left()
	c.batch.open.Add(-1)
	c.batch.givenUp()
}

// ValueType says what the Future's value is.
func (c *Call) ValueType() *core.ValueType { return c.batch.by.typed.Value }

// Name implements core.Work.
func (c *Call) Name() string { return c.batch.by.method.NameOf(c.batch.to.id) }

// Expires implements core.Work.
func (c *Call) Expires() int64 { return c.until }

// Limit implements core.Limited.
func (c *Call) Limit() time.Duration { return c.batch.by.method.Limit() }

// Help implements core.Work: the call leaves with the others.
func (c *Call) Help(*core.Turn) bool { return false }

// Waits implements core.Work: for the call that was made for all. Before that one is made the call is behind the turn of the batch that is away.
func (c *Call) Waits() ([]*core.Turn, []*core.Future) {
	if made := c.batch.made.Load(); made != nil {
		return nil, []*core.Future{made}
	}
	if t := c.batch.behind(); t != nil {
		return []*core.Turn{t}, nil
	}
	return nil, nil
}

// behind is the turn, on this node, for whose end the batch waits; nil where there is none.
func (b *batch) behind() *core.Turn {
	if b.alone.Load() {
		return nil
	}
	if first := b.lane.oldest.Load(); first != nil {
		if made := first.made.Load(); made != nil {
			return made.OwnTurn()
		}
	}
	return nil
}

// Break implements core.Work: a call that has not left gives way, and the others of its batch do not. Of one that has, the call for all does.
func (c *Call) Break(chain []string) bool {
	if c.batch.made.Load() != nil || !c.Future.Fail(&raysys.CycleError{Chain: chain}) {
		return false
	}
	c.Stopped()
	return true
}

// What a call is beyond core.Work.
var (
	_ core.Limited   = (*Call)(nil)
	_ core.Stoppable = (*Call)(nil)
)
