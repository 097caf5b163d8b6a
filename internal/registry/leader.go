package registry

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/due"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/groupengine"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/placement"
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
	sleepers sleepers
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
	released struct { // a placement record is gone
		node core.NodeKey
		name string
	}
	stateSaved string // the State with this key was stored or removed
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
		if m.code().fromMemory() && !l.reg.cfg.Members.Promised() {
			l.propose(shardlog.Batch{}, func(_ shardlog.Result, err error) { serveFenced(l, m, outcome(err)) })
			return
		}
		m.serveAt(l)
	case fenced:
		m.q.serveAt(l)
	case *placed:
		l.placed(m)
		l.reapRest(m.key)
	case *released:
		l.uncount(m.node)
		placementEnded(l, m.name, m.node)
	case wakeSleepers:
		callSleepers(l)
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
		if l.reg.cfg.Members.Promised() {
			l.due.Rang(int64(m))
		} else {
			ringFenced(l, m)
		}
	case dueFenced:
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

// fenced is a request after an empty batch was committed: this node led the shard when the request was there.
type fenced struct{ q request }

// serveFenced has q served, unless there is an error.
func serveFenced(l *leader, q request, err error) {
	l.reg.mu.Lock()
	led := l.reg.led[q.who().shard]
	leads := led != nil && led.shard == l.shard
	if err == nil && leads {
		l.post(fenced{q}) // under mu: the leader ends behind it
	}
	l.reg.mu.Unlock()
	switch {
	case err != nil:
		q.fail(err)
	case !leads:
		q.fail(errNotLeader)
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

// free reports whether the records that q would change can be changed now. Else q waits for one of them, or is refused
// because they lie in several shards.
func (l *leader) free(q request, keys []string) bool {
	for _, key := range keys {
		if l.reg.cfg.Layout.ShardOf(key) != q.who().shard {
			q.fail(fmt.Errorf("%w: changes of records in several shards", wire.ErrCorrupt))
			return false
		}
		if waiting, busy := l.records.changing[key]; busy {
			l.records.changing[key] = append(waiting, q)
			return false
		}
	}
	return true
}

// commitRecords commits the batches for q, and calls answer when all of them are. q is nil for a reaping, which has no
// answer.
func (l *leader) commitRecords(q request, batches []recordBatch, answer func()) {
	if q != nil {
		l.records.open[q] = &committing{left: len(batches), answer: answer}
	}
	for _, b := range batches {
		for _, key := range b.keys {
			l.records.changing[key] = nil
		}
	}
	for _, b := range batches {
		l.propose(b.Batch, func(res shardlog.Result, err error) {
			if err == nil && b.committed != nil {
				b.committed(res)
			}
			l.post(&changed{q, b.keys, err})
		})
	}
}

// changed answers the request whose changes were committed, serves the requests that waited for that, and wakes those
// that wait for a change.
func (l *leader) changed(m *changed) {
	var next []request
	for _, key := range m.keys {
		next = append(next, l.records.changing[key]...)
		delete(l.records.changing, key)
	}
	if m.q == nil {
		if refusedForNow(m.err) {
			l.postpone(m.keys)
		}
	} else if c := l.records.open[m.q]; c != nil {
		if c.left--; c.err == nil {
			c.err = m.err
		}
		if c.left == 0 {
			delete(l.records.open, m.q)
			switch {
			case errors.Is(c.err, shardlog.ErrConflict):
				next = append([]request{m.q}, next...)
			case c.err != nil:
				m.q.fail(outcome(c.err))
			default:
				c.answer()
			}
		}
	}
	if m.err == nil {
		for _, key := range m.keys {
			l.wake(key)
		}
	}
	for _, q := range next {
		q.serveAt(l)
	}
	if m.err == nil {
		for _, key := range m.keys {
			switch {
			case groupengine.IsKey(key):
				l.drive(key)
			case strings.HasPrefix(key, due.Prefix): // changed, or gone
				l.due.Look(key)
			}
		}
	}
}

// stopRecords sends all open requests to the next leader, also those whose changes may have been committed: a change
// that is made again comes to the same.
func (l *leader) stopRecords() {
	for q := range l.records.open {
		q.fail(errNotLeader)
	}
	for _, table := range []map[string][]request{l.records.changing, l.records.watching} {
		for _, waiting := range table {
			for _, q := range waiting {
				q.fail(errNotLeader)
			}
		}
	}
	l.records = recordTable{}
}

// wake serves the requests again that wait for a change of key.
func (l *leader) wake(key string) {
	waiting := l.records.watching[key]
	delete(l.records.watching, key)
	for _, q := range waiting {
		q.serveAt(l)
	}
}

// authorize refuses an activation that is not the current one, and a node that the grain is not placed on. In the one
// process that owns an embedded store every activation has the zero token.
func (l *leader) authorize(g *grain, from core.NodeKey) error {
	if g.token == (graindir.Token{}) && l.reg.cfg.Alone {
		return nil
	}
	p, _, ok := l.current(g.placementKey())
	switch {
	case !ok:
		return g.stale(graindir.Place{})
	case p.Token != g.token:
		return g.stale(p.Place)
	case p.NodeKey != from:
		return g.elsewhere(p.Place, from)
	}
	return nil
}

// current returns the grain's placement if it is on a node that lives.
func (l *leader) current(key string) (p graindir.Placed, rec shardlog.Record, ok bool) {
	rec, ok = l.shard.Get(key)
	if !ok {
		return p, rec, false
	}
	p, err := readPlacement(rec)
	return p, rec, err == nil && l.alive(p.NodeKey)
}

// placed answers all requests that waited for a placement.
func (l *leader) placed(m *placed) {
	waiting := l.placing[m.key]
	delete(l.placing, m.key)
	if m.err != nil {
		l.uncount(m.place.NodeKey)
	}
	if errors.Is(m.err, shardlog.ErrConflict) { // a release or a reaping was committed before, and the table has its outcome now
		for _, q := range waiting {
			q.serveAt(l)
		}
		return
	}
	place, err := m.place, outcome(m.err)
	if err != nil {
		place = graindir.Placed{}
	}
	for _, q := range waiting {
		q.answer(place, err)
	}
}

// view returns the nodes as they are now, less what this leader has given of them since they reported.
func (l *leader) view() *placement.View {
	n, members := &l.nodes, l.reg.cfg.Members
	now := members.Since(n.at, n.reported(members))
	if len(n.took) > 0 {
		at := l.reg.cfg.Runner.Now()
		for k, until := range n.took {
			if until <= at {
				n.reported(members)(k)
			}
		}
	}
	if n.view != nil && now.Members == n.at.Members {
		n.at = now
		return n.view
	}
	nodes, at := members.Nodes()
	for i := range nodes {
		own := &nodes[i]
		k := core.NodeKey{Node: own.ID, Incarnation: own.Incarnation}
		l.enterCount(own)
		if _, took := n.took[k]; !took {
			continue
		}
		if old := n.view.Find(own.ID); old != nil && old.Incarnation == own.Incarnation {
			own.Free, own.Devices = old.Free, old.Devices
		}
	}
	n.view = placement.NewView(members.Self().Node, nodes)
	n.at = Moment{at.Members, now.Reports} // a report between the two is entered again
	return n.view
}

// enterCount enters how many grains this shard has placed on a node.
func (l *leader) enterCount(n *placement.Node) {
	n.Grains = l.counts[core.NodeKey{Node: n.ID, Incarnation: n.Incarnation}]
}

// reapUnclaimed removes the records of tasks that are due.
func (l *leader) reapUnclaimed() {
	l.claiming.due = false
	r := l.reaper()
	r.scan(taskPrefix)
	r.flush()
	r.forgetClaiming()
}

// unclaimed reports whether the time is over in which the tasks of a dead submitter can be claimed. Else it has the
// records looked at again when it is.
func (l *leader) unclaimed(dead core.NodeKey) bool {
	c, now := &l.claiming, l.reg.cfg.Runner.Now()
	since, met := c.died[dead]
	if !met {
		if c.died == nil {
			c.died = map[core.NodeKey]int64{}
		}
		since, c.died[dead] = now, now
	}
	left := time.Duration(since-now) + unclaimedAfter
	if left > 0 && !c.due {
		c.due = true
		l.reg.cfg.Runner.After(left, func() {
			if l.shard.Err() == nil { // else this leader has ended, and the next one counts anew
				l.post(&reapUnclaimed{})
			}
		})
	}
	return left <= 0
}

// handOver asks a worker to claim a task that has a name, or to which a State refers, and whose submitter is dead. The leader asks again until one has: the
// worker may die too, and there may be none yet that has the function.
func (l *leader) handOver(key string, t *TaskRecord) {
	if l.reg.cfg.HandOver == nil {
		return
	}
	if l.handing == nil {
		l.handing = map[string]bool{}
		l.reg.cfg.Runner.After(handOverEvery, func() {
			if l.shard.Err() == nil { // else this leader has ended, and the next one looks at all
				l.post(&handOverAgain{})
			}
		})
	}
	l.handing[key] = true
	l.draws++
	d, err := placement.Place(l.view(), placement.Request{
		Kind:     placement.Grain, // a worker
		Function: t.Function, Namespace: t.Namespace, Seed: l.draws ^ l.shard.Epoch()<<32,
	})
	if err != nil {
		return
	}
	l.reg.cfg.HandOver(core.NodeKey{Node: d.Node, Incarnation: d.Incarnation}, taskKeyOf(key, t))
}

// handOverAgain looks again at the tasks that were handed over.
func (l *leader) handOverAgain() {
	keys := l.handing
	l.handing = nil
	r := l.reaper()
	for _, key := range slices.Sorted(maps.Keys(keys)) { // in an order that a seed repeats
		if rec, ok := l.shard.Get(key); ok {
			r.reapRecord(key, rec)
		}
	}
	r.flush()
}
