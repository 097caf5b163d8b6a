package grainengine

import (
	"fmt"
	"sync/atomic"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// more is what an activation has beyond the usual: its token on a node of a cluster, and its States. A plain grain of a
// single process has none of it.
type more struct {
	token Token
	stale atomic.Bool // it is not the grain's current activation any more: it stops, and runs no further call

	// The rest belongs to whoever has the turn.
	held   []turn     // calls whose turn came after it went stale, or the node began to drain
	cells  []*cell    // its States, in the order of the kind
	fenced *core.Turn // whose last act on a State was a commit
	open   bool       // it went stale while nobody knew whether its commit was stored
}

// goStale ends an activation whose token is not current.
func (a *activation) goStale() {
	if a.more.stale.CompareAndSwap(false, true) {
		a.post(&mail{msg: passivate{force: true}})
	}
}

// ready is asked before c gets its turn; when it returns false c has been dealt with. inner says that c is let in
// between the waits of another turn.
func (a *activation) ready(c turn, inner bool) bool {
	m, e := a.more, a.kind.engine
	switch {
	case inner && m.stale.Load():
		return false // it is still in the mailbox
	case m.stale.Load(), e.draining.Load() && !inner: // one that is let in may be what the turn in progress waits for
		m.held = append(m.held, c)
		return false
	}
	if v := c.inbound(); v != nil && v.nodeCloses() {
		v.refuse(Place{})
		return false
	}
	if !m.token.IsZero() {
		if err := e.cfg.Cluster.Suspended(); err != nil {
			c.future().Fail(fmt.Errorf("%s: %w", c.Name(), err))
			return false
		}
	}
	if err := a.reload(); err != nil {
		if m.stale.Load() {
			return a.ready(c, inner)
		}
		c.future().Fail(fmt.Errorf("%s: %w", c.Name(), err))
		return false
	}
	return true
}

// stays reports whether calls that came while the activation stopped may have another one here at once.
func (a *activation) stays() bool {
	return a.more == nil || a.kind.engine.cfg.Cluster == nil || !a.more.stale.Load() && !a.kind.engine.draining.Load()
}

// fence is the last thing before a reply leaves: for a grain with States either the turn's last act on them was a
// commit, or no other node can have been given the grain meanwhile (rule C20). It returns what the reply becomes.
func (a *activation) fence(c turn, err error) error {
	m := a.more
	if len(m.cells) == 0 {
		return err
	}
	switch {
	case m.stale.Load() && m.open:
		return fmt.Errorf("%s: %w: the grain moved away while its state was written", c.Name(), raysys.ErrOutcomeUnknown)
	case m.stale.Load():
		return fmt.Errorf("%s: %w: it is active elsewhere by now, and what this turn answers counts for nothing", c.Name(), raysys.ErrMoved)
	}
	if t := c.future().OwnTurn(); t != nil && m.fenced == t {
		m.fenced = nil
		return err
	}
	if lease := a.kind.engine.cfg.States.Lease(); lease != nil {
		return fmt.Errorf("%s: %w", c.Name(), lease)
	}
	return err
}
