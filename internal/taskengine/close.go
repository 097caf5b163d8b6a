package taskengine

import (
	"context"
	"fmt"
	"strings"

	"github.com/raysys/raysys"
)

// Close refuses further tasks, drops the queued ones and waits until running ones have returned or ctx ends. The
// caller has cancelled the turns the tasks came from.
func (e *Engine) Close(ctx context.Context) error {
	e.closed.Store(true)
	e.signalRoom()
	if x := e.net.Load(); x != nil {
		x.close()
		x.giveBackQueued()
	}
	for _, w := range e.takeDeferredBundles() {
		w.task.Future.Cancel(raysys.ErrClosed)
	}
	for c := e.queue.Pop(); c != nil; c = e.queue.Pop() {
		c.Cancel(raysys.ErrClosed)
	}
	for _, w := range e.line.Remove(isTask) {
		e.shaped.Add(-1)
		w.(shaped).Cancel(raysys.ErrClosed)
	}
	e.mu.Lock()
	for _, w := range e.idle {
		e.cfg.Actors.Root.Stop(w.pid)
	}
	e.live -= len(e.idle)
	e.idle = nil
	if e.lineage != nil {
		defer e.lineage.close()
	}
	if e.busy == 0 {
		e.mu.Unlock()
		return nil
	}
	allIdle := make(chan struct{})
	e.allIdle = allIdle
	e.mu.Unlock()

	select {
	case <-allIdle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close: tasks still run%s: %w", named(e.Busy(maxNamed)), context.Cause(ctx))
	}
}

// Drain makes the node refuse tasks of other nodes and give back those that have not begun. It sends the node's own
// tasks to peers that have room, and returns when no task runs or waits here, or when ctx ends.
func (e *Engine) Drain(ctx context.Context) error {
	drained := make(chan struct{})
	e.mu.Lock()
	if e.drained == nil {
		e.drained = drained
	} else {
		drained = e.drained
	}
	e.mu.Unlock()
	e.draining.Store(true)
	if x := e.net.Load(); x != nil {
		x.giveBackQueued()
		x.recheck()
	}
	if e.cfg.Changed != nil {
		e.cfg.Changed()
	}
	e.checkDrained()
	select {
	case <-drained:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("drain: tasks are left (%d of this node, %d of others%s): %w", e.Queued()+int(e.unqueued.Load()), e.Load().Inbound, named(e.Busy(maxNamed)), context.Cause(ctx))
	}
}

// CancelDrain makes a node that drains take tasks again.
func (e *Engine) CancelDrain() {
	e.draining.Store(false)
	e.mu.Lock()
	e.drained = nil
	e.mu.Unlock()
	if x := e.net.Load(); x != nil {
		x.recheck()
	}
	if e.cfg.Changed != nil {
		e.cfg.Changed()
	}
}

// maxNamed bounds the tasks that an error names.
const maxNamed = 10

// named shows names behind a count.
func named(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return ": " + strings.Join(list, ", ")
}

// Busy names up to limit tasks of other nodes that are here and have not been answered, and how many more there are.
func (e *Engine) Busy(limit int) (names []string) {
	x := e.net.Load()
	if x == nil {
		return nil
	}
	more := 0
	x.each(func(p *peer) {
		p.inbound.each(func(a *inboundTask) {
			switch {
			case a.answered.Load():
			case len(names) < limit:
				c := &a.Future
				state := "waits"
				if !c.Pending() {
					state = "runs"
				}
				names = append(names, fmt.Sprintf("task %s of node %s %s", c.Work().Name(), p.Node(), state))
			default:
				more++
			}
		})
	})
	if more > 0 {
		names = append(names, fmt.Sprintf("%d tasks more", more))
	}
	return names
}

// checkDrained is called wherever the last task of a draining node may have ended.
func (e *Engine) checkDrained() {
	if !e.draining.Load() {
		return
	}
	x := e.net.Load()
	if e.waits() || e.unqueued.Load() != 0 || e.shaped.Load() != 0 || x != nil && (x.unanswered.Load() != 0 || x.answering.Load() != 0 || x.away.Load() != 0) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.busy != 0 || e.drained == nil {
		return
	}
	select {
	case <-e.drained:
	default:
		close(e.drained)
	}
}
