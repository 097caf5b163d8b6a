package registry

import (
	"errors"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/due"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/store"
)

// leader is the actor around one shard that this node leads. It handles one message at a time, so its fields need no
// lock. The shard's own goroutine commits; the outcomes return as messages.
type leader struct {
	reg      *Registry
	shard    *shardlog.Shard
	self     *actor.PID                           // from the first message on
	placing  map[string][]*asked[graindir.Placed] // by placement key: the requests that wait for a placement that is being committed
	counts   map[core.NodeKey]int                 // grains placed, for the balance
	nodes    leaderNodes
	draws    uint64 // placements so far, which seeds the next choice
	records  recordTable
	unreaped unreaped
	claiming claiming
	handing  map[string]bool // by key: the tasks that wait for a worker (handOver); nil when none does
	groups   grouping
	due      due.Table
}

// newLeader makes a leader, and counts the placements in the shard's table.
func newLeader(r *Registry, s *shardlog.Shard) *leader {
	l := &leader{reg: r, shard: s, placing: map[string][]*asked[graindir.Placed]{}, counts: map[core.NodeKey]int{}, records: newRecordTable()}
	s.Scan("g/", func(_ string, rec shardlog.Record) bool {
		if p, err := readPlacement(rec); err == nil {
			l.counts[p.NodeKey]++
		}
		return true
	})
	l.due.Build(dueWorld{l})
	return l
}

// Messages of a leader to itself after a batch was committed or refused. Others are *placed, *changed, *reap,
// *reapRefused, *reapAgain, *reapUnclaimed, *handOverAgain,
// *groupAnswered, groupAgain, dueRang and due.Refused.
type (
	released   struct{ node core.NodeKey } // a placement record is gone
	stateSaved string                      // the State with this key was stored or removed
)

// Receive implements actor.Actor.
func (l *leader) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		l.self = ctx.Self()
		l.due.Arm()
	case request:
		if err := l.reg.cfg.Members.Suspended(); err != nil {
			m.fail(err)
			return
		}
		m.serveAt(l)
	case *placed:
		l.placed(m)
		l.reapRest(m.key)
	case *released:
		l.uncount(m.node)
	case *reap:
		l.reap()
	case *reapRefused:
		l.postpone(m.keys)
	case *reapAgain:
		l.reapAgain()
	case *reapUnclaimed:
		l.reapUnclaimed()
	case *handOverAgain:
		l.handOverAgain()
	case *groupAnswered:
		l.groupAnswered(m)
	case groupAgain:
		delete(l.groups.pause, string(m))
		l.drive(string(m))
	case dueRang:
		l.due.Rang(int64(m))
	case due.Refused:
		l.due.Refused(m)
	case stateSaved:
		l.wake(string(m))
	case *changed:
		l.changed(m)
		if m.q != nil || m.err == nil { // else a reaping was refused: its keys wait for the pause
			l.reapRest(m.keys...)
		}
	case *actor.Stopping:
		// The shard has ended. The outcomes of these placements would come too late for the mailbox.
		for _, waiting := range l.placing {
			for _, q := range waiting {
				q.fail(errNotLeader)
			}
		}
		l.placing = nil
		l.stopRecords()
		for key := range l.groups.by {
			l.reg.ledGroups.note(key, nil, 0, false)
		}
	}
}

// post sends a message to the leader itself, from any goroutine.
func (l *leader) post(m any) { l.reg.cfg.Actors.Root.Send(l.self, m) }

// alive reports whether an incarnation is in the cluster.
func (l *leader) alive(k core.NodeKey) bool { return l.reg.cfg.Members.Alive(k) }

// propose proposes a batch; done gets every error.
func (l *leader) propose(b shardlog.Batch, done func(shardlog.Result, error)) {
	if err := l.shard.Propose(b, done); err != nil {
		done(shardlog.Result{}, err)
	}
}

// uncount takes a grain that is placed on a node no more off its count.
func (l *leader) uncount(k core.NodeKey) {
	if l.counts[k]--; l.counts[k] <= 0 {
		delete(l.counts, k)
	}
	if v := l.nodes.view; v != nil {
		v.Update(k.Node, l.enterCount)
	}
}

// outcome turns an error of the shard into the asker's.
func outcome(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, shardlog.ErrDeposed), errors.Is(err, store.ErrClosed):
		return errNotLeader // the batch was not committed, and will not be
	case errors.Is(err, store.ErrTooLarge):
		return fmt.Errorf("%w: %w", raysys.ErrTooLarge, err)
	case errors.Is(err, store.ErrUnknownOutcome):
		return fmt.Errorf("%w: %w", raysys.ErrOutcomeUnknown, err)
	}
	return err
}
