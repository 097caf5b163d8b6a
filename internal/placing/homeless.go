package placing

import (
	"errors"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/placement"
)

// homelessPause is how often a stateless call that found no worker looks for one.
const homelessPause = 100 * time.Millisecond

// locateAnywhere finds a worker for a call of a stateless kind. While this node is connected to none the call waits, as
// tasks and calls of other grains do; its own deadline ends it.
func (l Locator) locateAnywhere(id graindir.ID, want graindir.Wanted, done func(graindir.Placed, error)) {
	l.lookAnywhere(id, want, false, done)
}

// lookAnywhere is one look; waits says that the call is among the homeless already.
func (l Locator) lookAnywhere(id graindir.ID, want graindir.Wanted, waits bool, done func(graindir.Placed, error)) {
	d, err := l.anywhere(id, want)
	var none *placement.NoNodeError
	if err == nil || !errors.As(err, &none) || l.pl.reachesWorker() {
		if waits {
			l.pl.Homeless.Add(-1)
		}
		if err == nil {
			l.pl.Decisions.Placed(id, d)
		}
		done(graindir.Placed{Place: graindir.Place{NodeKey: core.NodeKey{Node: d.Node, Incarnation: d.Incarnation}}}, err)
		return
	}
	if !waits {
		l.pl.Homeless.Add(1)
	}
	l.pl.Wheel.Set(&core.Alarm{At: l.pl.Runner.Now() + int64(homelessPause), Ring: func() {
		if l.pl.Runner.Context().Err() != nil {
			l.pl.Homeless.Add(-1)
			done(graindir.Placed{}, raysys.ErrClosed)
			return
		}
		l.lookAnywhere(id, want, true, done)
	}})
}

// reachesWorker reports whether a node that runs work is connected.
func (pl *Placer) reachesWorker() bool {
	nodes, _ := pl.Nodes()
	for _, n := range nodes {
		if n.Worker && !n.Joining {
			return true
		}
	}
	return false
}
