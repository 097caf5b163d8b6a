package grainengine

import (
	"fmt"
	"sync/atomic"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
)

// tenure is what an activation knows of its right to be the grain: its token on a node of a cluster, and its States,
// which are stored under that token. The activation of a grain without States in a single process has none.
type tenure struct {
	a       *activation // whose it is
	token   graindir.Token
	stale   atomic.Bool      // the grain has a newer placement: the activation stops, and runs no further call
	durable *durable         // of a durable kind
	wanted  *graindir.Wanted // of a kind that asks for resources: what the place was asked for

	// The rest is used by the turn only.
	unserved    []*call    // calls whose turn came after it went stale, or the node began to drain
	cells       []*cell    // its States, in the order of the kind
	committedBy *core.Turn // the turn whose last operation on a State was a commit
	open        bool       // it went stale while the outcome of a commit was unknown
}

// goStale ends an activation whose token is not current.
func (m *tenure) goStale() {
	if m.stale.CompareAndSwap(false, true) {
		m.a.post(&mail{msg: passivate{force: true}})
		m.a.kind.engine.dropWaiting()
	}
}

// mayRun reports whether c may run now; else it has settled c or put it aside. inner says that c would run between the
// waits of another turn.
func (m *tenure) mayRun(c *call, inner bool) bool {
	e := m.a.kind.engine
	switch {
	case inner && (m.stale.Load() || m.durable != nil && m.durable.again.Load()):
		return false // it is still in the mailbox
	case m.stale.Load(), m.a.holding.followsBundle(), e.draining.Load() && !inner: // one that is let in may be what the turn in progress waits for
		if !c.method.tick {
			m.unserved = append(m.unserved, c)
		}
		return false
	}
	if v := c.inbound(); v != nil && v.nodeCloses() {
		v.refuse(graindir.Place{})
		return false
	}
	if !m.token.IsZero() {
		if err := e.cfg.Cluster.Suspended(); err != nil {
			m.a.failCall(c, fmt.Errorf("%s: %w", c.Name(), err))
			return false
		}
	}
	if m.durable != nil {
		if m.durable.again.Load() {
			m.durable.beginAnew()
			if m.a.state == nil && !m.stale.Load() {
				return true // the call fails with the reason
			}
			return m.mayRun(c, inner)
		}
		return true
	}
	if err := m.a.reload(); err != nil {
		if m.stale.Load() {
			return m.mayRun(c, inner)
		}
		m.a.failCall(c, fmt.Errorf("%s: %w", c.Name(), err))
		return false
	}
	return true
}

// stays reports whether calls that came while the activation stopped may get another one on this node at once.
func (a *activation) stays() bool {
	return a.kind.engine.cfg.Cluster == nil || !a.holding.followsBundle() && a.parting.Load() == nil && a.holding.evictedBy() == nil && (a.tenure == nil || !a.tenure.stale.Load() && !a.kind.engine.draining.Load())
}

// mayAnswer is called before a reply leaves (rule C20); err is what the method returned. The reply may leave when the turn's
// last operation on a State was a commit, or while this node's lease holds: then no other node can have been given the
// grain. Then mayAnswer returns err. Otherwise it returns the error that the caller gets in place of the reply.
func (m *tenure) mayAnswer(c *call, err error) error {
	if len(m.cells) == 0 {
		return err
	}
	switch {
	case m.stale.Load() && m.open:
		return fmt.Errorf("%s: %w: the grain moved away while its state was written", c.Name(), raysys.ErrOutcomeUnknown)
	case m.stale.Load():
		return fmt.Errorf("%s: %w: it is active elsewhere by now, and what this turn answers counts for nothing", c.Name(), raysys.ErrMoved)
	}
	if t := c.Future.OwnTurn(); t != nil && m.committedBy == t {
		m.committedBy = nil
		return err
	}
	if lease := m.a.kind.engine.cfg.States.Lease(); lease != nil {
		return fmt.Errorf("%s: %w", c.Name(), lease)
	}
	return err
}
