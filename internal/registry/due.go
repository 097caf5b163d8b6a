package registry

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/due"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/placement"
)

// dues changes records of things that are due at a time, which lie in one shard, or lists those of a shard. Every node may ask.
type dues struct {
	list  []dueChange
	query *due.Query // where there is no list
}

type dueChange struct{ due.Change }

// dueItem answers a change. A page is answered by its items, behind one that has its count and where to go on.
type dueItem struct {
	due.Item
	made  bool
	again bool // the answer had no room for the record: it is asked for again
	count int
	next  string
}

const (
	// maxDueChanges bounds the changes of one request.
	maxDueChanges = due.MaxFired
	// maxListed bounds the records of a page.
	maxListed = 1000
	// maxDueAnswer bounds the records of an answer: a frame has 1 MiB, and one record more comes in.
	maxDueAnswer = 512 << 10
	// doneFor is how long the next record of what was done waits for others of its shard.
	doneFor = 20 * time.Millisecond
)

func (*dues) code() code { return codeDue }

func (o *dues) shardKey() string {
	if o.query != nil {
		return ""
	}
	return o.list[0].shardKey()
}

func (c dueChange) shardKey() string { return c.Key() }

func (c dueChange) size() int {
	if c.Next == nil {
		return 64 + len(c.Key())
	}
	return 64 + len(c.Key()) + len(c.Next.Data)
}

// Bits of a change and of an answer.
const (
	dueRead   = 1 << iota
	dueDone   // or made
	duePut    // or again
	dueSilent // or soonest
)

func bitIf(set bool, bit byte) byte {
	if set {
		return bit
	}
	return 0
}

func (o *dues) append(dst []byte) []byte {
	dst = wire.AppendUvarint(dst, uint64(len(o.list)))
	for i := range o.list {
		c := &o.list[i]
		dst = append(dst, bitIf(c.Read, dueRead)|bitIf(c.Done, dueDone)|bitIf(c.Next != nil, duePut)|bitIf(c.Silent, dueSilent))
		dst = wire.AppendBytes(wire.AppendBytes(dst, c.Namespace), c.Name.Name)
		if dst = wire.AppendBytes(wire.AppendStamp(dst, c.Was), c.Asked); c.Next != nil {
			dst = c.Next.Append(dst)
		}
	}
	if q := o.query; q != nil {
		dst = wire.AppendBytes(wire.AppendBytes(append(dst, bitIf(q.Soonest, dueSilent)), q.Prefix), q.From)
		dst = wire.AppendBytes(wire.AppendUvarint(wire.AppendUvarint(dst, uint64(q.Limit)), uint64(q.Shard)), q.Named)
	}
	return dst
}

func (o *dues) read(r *wire.Reader) (err error) {
	n := r.Count(1)
	if n > maxDueChanges {
		return fmt.Errorf("%w: %d changes of schedules", wire.ErrCorrupt, n)
	}
	o.list = make([]dueChange, n)
	for i := range o.list {
		c := &o.list[i]
		bits := r.Byte()
		c.Read, c.Done, c.Silent = bits&dueRead != 0, bits&dueDone != 0, bits&dueSilent != 0
		c.Name = due.Name{Namespace: r.String(), Name: r.String()}
		c.Was, c.Asked = wire.ReadStamp[due.Version](r), r.String()
		if bits&duePut != 0 {
			rec, err := due.Read(r)
			if err != nil {
				return err
			}
			c.Next = &rec
		}
	}
	if n == 0 {
		q := &due.Query{Soonest: r.Byte() == dueSilent, Prefix: r.String(), From: r.String()}
		q.Limit, q.Shard, q.Named = int(min(r.Uvarint(), maxListed)), int(r.Uint32()), r.String()
		if o.query = q; !strings.HasPrefix(q.Prefix, due.Prefix) {
			return fmt.Errorf("%w: %.64q is no key of a schedule", wire.ErrCorrupt, q.Prefix)
		}
	}
	return r.Err()
}

func (*dues) appendAnswer(dst []byte, items []dueItem) []byte {
	dst = wire.AppendUvarint(dst, uint64(len(items)))
	start := len(dst)
	for _, it := range items {
		if len(dst)-start > maxDueAnswer && len(it.Record.Data) > 0 {
			it = dueItem{Item: due.Item{Name: it.Name}, again: true}
		}
		dst = it.Append(append(dst, bitIf(it.made, dueDone)|bitIf(it.again, duePut)))
		dst = wire.AppendBytes(wire.AppendUvarint(dst, uint64(it.count)), it.next)
	}
	if len(items) > 0 {
		dst = due.AppendNow(dst, items[0].Now)
	}
	return dst
}

func (*dues) readAnswer(r *wire.Reader) ([]dueItem, error) {
	items := make([]dueItem, r.Count(1))
	for i := range items {
		it, bits := &items[i], r.Byte()
		it.made, it.again = bits&dueDone != 0, bits&duePut != 0
		if err := it.Read(r); err != nil {
			return nil, err
		}
		it.count, it.next = int(r.Uint32()), r.String()
	}
	now := due.ReadNow(r)
	for i := range items {
		items[i].Now = now
	}
	return items, r.Err()
}

// serve makes the changes in one batch; those of records that have another version are left out, and those by which a worker gives a record
// back as it is. What changes nothing is answered behind a batch too, so that this node led the shard after it read.
func (o *dues) serve(l *leader, q *asked[[]dueItem]) {
	keys := make([]string, len(o.list))
	for i := range keys {
		keys[i] = o.list[i].shardKey()
	}
	if !l.free(q, keys) {
		return
	}
	var b recordBatch
	var items []dueItem
	if o.query != nil {
		p := l.due.Page(o.query)
		items = append(items, dueItem{count: p.Count, next: p.Next})
		for _, it := range p.Items {
			items = append(items, dueItem{Item: it})
		}
	}
	puts := map[int]int{} // by change: the index of its put
	stay := map[int]bool{}
	for i, key := range keys {
		c := &o.list[i]
		it := dueItem{Item: l.due.Item(key)}
		known := c.Silent || c.Next == nil || c.Next.At == it.Record.At // an edit knows who was given the record, and so what may have begun
		it.made = !c.Read && it.Version == c.Was && known && !slices.Contains(b.keys, key)
		switch {
		case it.made && c.Done && l.due.Unchanged(key, c.Next):
			stay[i] = true
		case it.made:
			it.Item = due.Item{Name: c.Name}
			if !c.Silent {
				l.due.Hold(key)
			}
			b.keys = append(b.keys, key)
			b.Checks = append(b.Checks, shardlog.Check{Key: key, Version: shardlog.Version(c.Was)})
			if c.Next == nil {
				b.Deletes = append(b.Deletes, key)
			} else {
				puts[i] = len(b.Puts)
				b.Puts = append(b.Puts, shardlog.Put{Key: key, Value: c.Next.Append(nil)})
				if it.Record = *c.Next; c.Silent {
					it.Record.Data = nil
				}
			}
		}
		items = append(items, it)
	}
	b.committed = func(res shardlog.Result) {
		for i, n := range puts {
			items[i].Version = due.Version(res.Version(n))
		}
	}
	l.commitRecords(q, []recordBatch{b}, func() {
		for i := range o.list {
			c, key := &o.list[i], keys[i]
			switch {
			case c.Read && c.Done && items[i].Version == c.Was:
				l.due.Unread(key, q.from, c.Asked)
			case !items[i].made:
			case c.Done:
				if l.due.Done(key, q.from); stay[i] {
					l.due.Stay(key)
				}
			default:
				l.due.Changed(key, !c.Silent)
			}
			if items[i].made && c.Asked != "" && l.reg.cfg.Asked != nil {
				l.reg.cfg.Asked(c.Asked+" schedule "+c.Name.Name, q.from)
			}
		}
		now := wall(l.reg).UnixNano()
		for i := range items {
			items[i].Now = now
		}
		q.answer(items, nil)
	})
}

// dueStore implements due.Store. What is done is gathered for longer than what somebody waits for.
type dueStore struct {
	reg        *Registry
	soon, done gatherer[dueChange, dueItem]
}

// Dues returns the records of what is due.
func Dues(r *Registry) due.Store { return &r.dues }

func (s *dueStore) init(r *Registry) {
	request := func(list []dueChange) operation[[]dueItem] { return &dues{list: list} }
	s.reg = r
	s.soon = gatherer[dueChange, dueItem]{reg: r, request: request}
	s.done = gatherer[dueChange, dueItem]{reg: r, request: request, wait: doneFor, most: maxDueChanges}
}

// Change implements due.Store.
func (s *dueStore) Change(c due.Change, done func(due.Item, bool, error)) {
	g := &s.soon
	if c.Done {
		g = &s.done
	}
	g.add(dueChange{c}, func(it dueItem, err error) {
		if it.again {
			s.Change(c, done)
			return
		}
		if it.Now == 0 { // the leader is of a version before
			it.Now = wall(s.reg).UnixNano()
		}
		done(it.Item, it.made, err)
	})
}

// List implements due.Store.
func (s *dueStore) List(o due.Query, done func(due.Page, error)) {
	q := &asked[[]dueItem]{operation: &dues{query: &o}, done: func(items []dueItem, err error) {
		var p due.Page
		for i := range items {
			switch it := &items[i]; {
			case i == 0:
				p.Count, p.Next = it.count, it.next
			case it.again:
				p.Next = it.Key() // the rest had no room
			case p.Next == "" || it.Key() < p.Next:
				p.Items = append(p.Items, it.Item)
			}
		}
		done(p, err)
	}}
	q.asker = asker{reg: s.reg, shard: o.Shard, from: s.reg.cfg.Members.Self()}
	s.reg.askLeader(q)
}

// Shards implements due.Store.
func (s *dueStore) Shards() int { return s.reg.cfg.Layout.Shards }

func wall(r *Registry) time.Time {
	if r.cfg.Wall != nil {
		return r.cfg.Wall()
	}
	return time.Now()
}

// dueRang is the message that an alarm has rung.
type dueRang int64

// dueFenced is the same after an empty batch was committed: this node led the shard when the alarm had rung.
type dueFenced dueRang

// ringFenced has what is due given to workers once this node has shown that it leads: another may, and may have paused a
// schedule.
func ringFenced(l *leader, m dueRang) {
	l.propose(shardlog.Batch{}, func(_ shardlog.Result, err error) {
		switch {
		case l.shard.Err() != nil: // the next leader has a table of its own
		case err == nil:
			l.post(dueFenced(m))
		default:
			l.reg.cfg.Runner.After(time.Second, func() { l.post(m) })
		}
	})
}

// dueWorld implements due.World for a leader.
type dueWorld struct{ *leader }

// Record implements due.World. One of a later version than this node knows stays for a leader that does.
func (w dueWorld) Record(key string) (due.Record, due.Version, bool) {
	rec, ok := w.shard.Get(key)
	if !ok {
		return due.Record{}, due.Version{}, false
	}
	r := wire.NewReader(rec.Value)
	d, err := due.Read(&r)
	return d, due.Version(rec.Version), err == nil
}

// Scan implements due.World.
func (w dueWorld) Scan(prefix string, visit func(key string) bool) {
	w.shard.Scan(prefix, func(key string, _ shardlog.Record) bool { return visit(key) })
}

// Alive implements due.World.
func (w dueWorld) Alive(k core.NodeKey) bool { return w.alive(k) }

// Worker implements due.World.
func (w dueWorld) Worker(function, namespace string) (core.NodeKey, error) {
	w.draws++
	d, err := placement.Place(w.view(), placement.Request{
		Kind:     placement.Grain, // a worker
		Function: function, Namespace: namespace, Seed: w.draws ^ w.shard.Epoch()<<32,
	})
	return core.NodeKey{Node: d.Node, Incarnation: d.Incarnation}, err
}

// Fire implements due.World.
func (w dueWorld) Fire(with core.NodeKey, list []due.Item) {
	w.reg.cfg.Fire(with, list, func(refused []due.Item, err error) { w.post(due.Refused{List: refused, By: with, Err: err}) })
}

// Ready implements due.World.
func (w dueWorld) Ready() bool {
	return w.reg.cfg.Fire != nil && w.reg.cfg.Members.Suspended() == nil
}

// Ring implements due.World.
func (w dueWorld) Ring(in time.Duration, at int64) {
	w.reg.cfg.Runner.After(in, func() {
		if w.shard.Err() == nil { // else the next leader has a table of its own
			w.post(dueRang(at))
		}
	})
}

// Now implements due.World.
func (w dueWorld) Now() int64 { return w.reg.cfg.Runner.Now() }

// Wall implements due.World.
func (w dueWorld) Wall() time.Time { return wall(w.reg) }
