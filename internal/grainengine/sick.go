package grainengine

import (
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/goroutines"
)

// On a node of a cluster a grain that waits for devices which are sick is placed again, and its calls fail, or wait, where no node has it
// (awaitNode, withoutBundle). On a node without others its calls fail, but for those that wait for resources: for these another activation
// waits until the devices are well.
//
//	deliverHere ──► spawn ──► ledger.Line ──► Grant
//	     └─► sought ──► Line.Move ──► Evict ──► close: calls fail ──► a successor for those that wait

// waitsFor reports whether a call waits for resources that no node has now.
func (k *boundKind) waitsFor(c *call) bool {
	return k.def.Waits || k.engine.cfg.WaitForResources || c.facts().waits
}

// sought is called when an activation has been given a call, maybe by what Line.Move does.
func (a *activation) sought(c *call) {
	e := a.kind.engine
	if a.holding == nil || a.holding.need().GPU == 0 || !e.cfg.Line.Ill() || a.kind.waitsFor(c) {
		return
	}
	e.cfg.Pool.Go(goroutines.Func(e.cfg.Line.Move))
}

// soughtCall is sought for a call of a stateless kind.
func (k *boundKind) soughtCall(c *call) {
	if e := k.engine; k.def.Need.GPU > 0 && e.cfg.Line.Ill() && !k.waitsFor(c) {
		e.cfg.Pool.Go(goroutines.Func(e.MoveCalls))
	}
}

// endSick fails the calls that wait for workers whose devices are sick, and do not wait for resources.
func (p *pool) endSick() {
	line := p.kind.engine.cfg.Line
	ended := false
	for {
		sick := line.Unwell(p.kind.def.Need)
		if sick == nil {
			break
		}
		c := p.leaver(true)
		if c == nil {
			break
		}
		ended = true
		c.Future.Fail(fmt.Errorf("%s: %w: %w", p.kind.def.name, raysys.ErrNoCapacity, sick))
	}
	if ended {
		p.kind.engine.dropWaiting()
	}
}
