package registry

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/groupengine"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/placement"
)

// group asks about a placement group. Every node may ask; a group goes with its owner, unless it is detached.
type group struct{ groupengine.Question }

func (*group) code() code { return codeGroup }

func (o *group) shardKey() string { return o.Key }

func (o *group) append(dst []byte) []byte { return o.Question.Append(dst) }

func (o *group) read(r *wire.Reader) error { return o.Question.Read(r) }

func (*group) appendAnswer(dst []byte, e groupengine.Entry) []byte { return e.Append(dst) }

func (*group) readAnswer(r *wire.Reader) (groupengine.Entry, error) { return groupengine.ReadEntry(r) }

func (o *group) serve(l *leader, q *asked[groupengine.Entry]) {
	if (o.Op == groupengine.Create || o.Op == groupengine.Delete) && !l.free(q, []string{o.Key}) {
		return
	}
	e, err := l.groupEntry(o.Key)
	if err != nil {
		q.fail(err)
		return
	}
	switch {
	case o.Op == groupengine.Create && (!e.Exists || e.Record.Never != ""): // which has ended
		o.create(l, q, e.Version)
	case o.Op == groupengine.Create && l.going(&e.Record): // the asker waits until it is gone
		e.Record.Removing = true
		q.answer(e, nil)
		l.drive(o.Key)
	case o.Op == groupengine.Create && e.Record.ID != o.Record.ID:
		q.fail(fmt.Errorf("%w: %s: look it up, remove it, or give another name", raysys.ErrNameTaken, groupengine.Shown(o.Key)))
	case o.Op == groupengine.Delete && e.Exists && !e.Record.Removing:
		l.commitGroup(q, o.Key, groupengine.Remove(&e.Record), e.Version, func() {
			if told := l.reg.cfg.Removed; told != nil && q.from != e.Record.Owner {
				told(groupengine.Shown(o.Key), q.from)
			}
			q.answer(e, nil)
		})
	case o.Op == groupengine.Await && e.Version == o.Seen:
		l.records.watching[o.Key] = append(l.records.watching[o.Key], q)
	case o.Op == groupengine.Check:
		q.answer(e, nil)
		l.drive(o.Key)
	default:
		q.answer(e, nil)
	}
}

// going reports whether the group is being removed, or is about to be since its owner is dead.
func (l *leader) going(r *groupengine.Record) bool {
	return r.Removing || r.Owner != core.NodeKey{} && !l.alive(r.Owner)
}

// create makes the record, in place of one of that version, with an assignment where there is room.
func (o *group) create(l *leader, q *asked[groupengine.Entry], was shardlog.Version) {
	if o.Record.Owner != (core.NodeKey{}) && !l.alive(o.Record.Owner) { // the asker has not heard of its death
		o.Record.Owner = q.from
	}
	next, err := groupengine.New(o.Record, groupWorld{l})
	if err != nil {
		q.fail(fmt.Errorf("%s: %w", groupengine.Shown(o.Key), err))
		return
	}
	l.commitGroup(q, o.Key, next, was, func() {
		e, err := l.groupEntry(o.Key)
		q.answer(e, err)
	})
}

// groupEntry reads the record from the shard's table.
func (l *leader) groupEntry(key string) (e groupengine.Entry, err error) {
	rec, ok := l.shard.Get(key)
	if !ok {
		return e, nil
	}
	r := wire.NewReader(rec.Value)
	e = groupengine.Entry{Exists: true, Version: rec.Version}
	e.Record, err = groupengine.Read(&r)
	return e, err
}

// commitGroup changes the record of a group from version was to next; nil removes it. What follows from that is done when it is
// committed: see changed.
func (l *leader) commitGroup(q request, key string, next *groupengine.Record, was shardlog.Version, answer func()) {
	b := recordBatch{keys: []string{key}}
	b.Checks = []shardlog.Check{{Key: key, Version: was}}
	if next == nil {
		b.Deletes = []string{key}
	} else {
		b.Puts = []shardlog.Put{{Key: key, Value: next.Append(nil)}}
	}
	l.commitRecords(q, []recordBatch{b}, answer)
}

// grouping is what a leader knows of its groups beside their records.
type grouping struct {
	by    map[string]*groupProgress
	pause map[string]bool // groups that wait to be driven again
}

// groupProgress is that of one group.
type groupProgress struct {
	groupengine.Progress
	id     core.TaskID
	rounds groupengine.Rounds // of nodes that were asked to make room since it waits
	asked  uint64             // how often, with StrictSpread
}

// Messages of a leader to itself about groups.
type (
	groupAnswered struct { // a node has answered
		id core.TaskID
		to groupengine.To
		error
	}
	groupAgain string // the pause of the group with this key is over
)

// drive does what is to be done with a group next. A change that is being committed calls it when it is.
func (l *leader) drive(key string) {
	if l.busy(key) {
		return
	}
	e, err := l.groupEntry(key)
	if !e.Exists || err != nil { // a version that this node does not know waits for a leader that does
		delete(l.groups.by, key)
		l.reg.ledGroups.note(key, nil, 0, false)
		return
	}
	p := l.groups.by[key]
	if p == nil || p.id != e.Record.ID {
		p = &groupProgress{id: e.Record.ID}
		if l.groups.by == nil {
			l.groups = grouping{map[string]*groupProgress{}, map[string]bool{}}
		}
		l.groups.by[key] = p
	}
	s := p.Step(key, &e.Record, groupWorld{l})
	l.reg.ledGroups.note(key, &e.Record, l.reg.cfg.Runner.Now(), p.Gathers())
	if s.Delete || s.Record != nil {
		l.commitGroup(nil, key, s.Record, e.Version, nil)
	}
	for _, t := range s.Asks {
		id := e.Record.ID
		l.reg.cfg.AskBundles(t.Node, t.Ask, func(err error) {
			if t.Answered {
				l.post(&groupAnswered{id, t, err})
			}
		})
	}
	if s.Wait == 0 {
		p.rounds = groupengine.Rounds{}
		return
	}
	l.askForRoom(key, &e.Record, p)
	l.driveAfter(key, s.Wait)
}

// askForRoom asks nodes to make room for a group that waits, where idle grains hold what it needs.
func (l *leader) askForRoom(key string, r *groupengine.Record, p *groupProgress) {
	a := groupengine.Ask{Verb: groupengine.MakeRoom, Group: key, ID: r.ID}
	v := l.view()
	var nodes []core.NodeKey
	for i, b := range r.Bundles {
		if b.At != (core.NodeKey{}) && l.alive(b.At) {
			continue
		}
		a.Bundles = append(a.Bundles, groupengine.Asked{Index: i, Needs: b.Needs})
		for _, id := range v.Queues(placement.Request{Kind: placement.Grain, Needs: b.Needs}) {
			n := v.Find(id)
			k := core.NodeKey{Node: id, Incarnation: n.Incarnation}
			if (r.Namespace == "" || n.Namespace == r.Namespace) && !slices.Contains(nodes, k) {
				nodes = append(nodes, k)
			}
		}
	}
	if len(nodes) == 0 {
		return
	}
	switch r.Strategy {
	case placement.StrictPack:
		a.Verb = groupengine.MakeRoomForAll
	case placement.StrictSpread: // a node has one of them
		p.asked++
		i := rand.New(rand.NewPCG(r.ID.Lo, p.asked)).IntN(len(a.Bundles))
		a.Bundles = a.Bundles[i : i+1]
	}
	for _, n := range p.rounds.Next(nodes, r.ID.Lo) {
		l.reg.cfg.AskBundles(n, a, func(error) {})
	}
}

// driveAfter drives the group after a pause.
func (l *leader) driveAfter(key string, pause time.Duration) {
	if l.groups.pause[key] {
		return
	}
	l.groups.pause[key] = true
	l.reg.cfg.Runner.After(pause, func() {
		if l.shard.Err() == nil { // else the next leader drives it
			l.post(groupAgain(key))
		}
	})
}

// groupAnswered enters the answer of a node. One that cannot be asked to release what it has is asked again after a pause.
func (l *leader) groupAnswered(m *groupAnswered) {
	key := m.to.Group
	p := l.groups.by[key]
	if p == nil || p.id != m.id {
		return
	}
	if !p.Answer(m.to, m.error) {
		return
	}
	if m.error != nil && m.to.Verb == groupengine.Release {
		l.driveAfter(key, releasePause)
		return
	}
	l.drive(key)
}

const releasePause = 100 * time.Millisecond

// groupWorld implements groupengine.World.
type groupWorld struct{ l *leader }

// Alive implements groupengine.World.
func (w groupWorld) Alive(k core.NodeKey) bool { return w.l.alive(k) }

// Draining implements groupengine.World.
func (w groupWorld) Draining(k core.NodeKey) bool {
	n := w.l.view().Find(k.Node)
	return n != nil && n.Incarnation == k.Incarnation && n.Draining
}

// Now implements groupengine.World.
func (w groupWorld) Now() int64 { return w.l.reg.cfg.Runner.Now() }

// Expecting implements groupengine.World.
func (w groupWorld) Expecting() bool {
	f := w.l.reg.cfg.Expecting
	return f != nil && f()
}

// Gatherable implements groupengine.World.
func (w groupWorld) Gatherable(g placement.GroupRequest) ([]core.NodeKey, error) {
	nodes, _ := w.l.reg.cfg.Members.Nodes()
	for i := range nodes {
		n := &nodes[i]
		n.Free, n.Devices = n.Total, slices.Clone(n.Devices)
		for k := range n.Devices {
			d := &n.Devices[k]
			d.FreeShare, d.FreeMemory = cmp.Or(d.Share, 1), d.Memory
		}
	}
	v := placement.NewView("", nodes)
	at, err := placement.Assign(v, g)
	if err != nil {
		return nil, err
	}
	return nodeKeys(v, at)
}

// Assign implements groupengine.World. What it gives a node is taken in the leader's view until the node's next report, or for takenFor.
func (w groupWorld) Assign(g placement.GroupRequest) ([]core.NodeKey, error) {
	v := w.l.view()
	at, err := placement.Assign(v, g)
	if err != nil {
		return nil, err
	}
	list, err := nodeKeys(v, at)
	for i := range list {
		if len(g.At) <= i || g.At[i] == "" {
			v.Update(at[i], func(n *placement.Node) { n.Take(g.Bundles[i]) })
			w.l.nodes.taken(list[i], g.Bundles[i], w.l.reg.cfg.Runner.Now())
		}
	}
	return list, err
}

// nodeKeys are the nodes with their incarnations.
func nodeKeys(v *placement.View, ids []raysys.NodeID) (list []core.NodeKey, err error) {
	for _, id := range ids {
		n := v.Find(id)
		if n == nil {
			return nil, fmt.Errorf("%w: node %s has left", placement.ErrNoNode, id)
		}
		list = append(list, core.NodeKey{Node: id, Incarnation: n.Incarnation})
	}
	return list, nil
}

// LedGroup is a placement group of a shard that this node leads.
type LedGroup struct {
	Key    string
	Record *groupengine.Record // not to be changed
	Waits  bool                // for room
	Since  int64               // when its leader first saw it wait, by Runner.Now: a new leader counts anew
	// Gathers says that nodes gather its room.
	Gathers bool
}

// ledGroups are the groups of all leaders of this node, for questions that do not go through the leaders.
type ledGroups struct {
	mu sync.Mutex // guards by
	by map[string]LedGroup
}

// note enters a group as its leader sees it; nil for one that is gone, or whose leader ends.
func (p *ledGroups) note(key string, r *groupengine.Record, now int64, gathers bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r == nil {
		delete(p.by, key)
		return
	}
	g := LedGroup{Key: key, Record: r, Waits: !r.Removing && r.Never == "" && !r.Ready(), Gathers: gathers}
	if was := p.by[key]; g.Waits && was.Waits {
		g.Since = was.Since
	} else if g.Waits {
		g.Since = now
	}
	if p.by == nil {
		p.by = map[string]LedGroup{}
	}
	p.by[key] = g
}
