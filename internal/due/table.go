package due

import (
	"cmp"
	"container/heap"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/raysys/raysys/internal/core"
)

// World is the leader of a shard, and its node, as a Table sees them.
type World interface {
	// Record returns what is stored under a key. Scan shows the keys with a prefix in their order.
	Record(key string) (Record, Version, bool)
	Scan(prefix string, visit func(key string) bool)
	Alive(core.NodeKey) bool
	// Worker is a worker that has the function.
	Worker(function, namespace string) (core.NodeKey, error)
	// Fire gives records to a worker; what is refused comes back by Table.Refused.
	Fire(with core.NodeKey, list []Item)
	// Ready reports whether Fire can be called now.
	Ready() bool
	// Ring has Table.Rang called with at in a while.
	Ring(in time.Duration, at int64)
	Now() int64 // a clock that is never set, in nanoseconds
	Wall() time.Time
}

// Table is what the leader of a shard knows of these records beside what is stored. It waits for the next that is due, with one alarm, and
// gives what is due to workers that have the function:
//
//	waits ── its time has come ──▶ given to a worker ── the worker stores the next record ──▶ waits
//	  ▲ ▲                            │     │ it is due again, or was edited: given to the same worker
//	  │ └── no worker, refused: 1 s ─┘     └ the worker dies ──▶ given to another
//	  └── Build, of a new leader: a record that names a node which is alive is with that node
//
// The time of day is read at least each minute: when it was set, the alarm rings too late by that at most, and what waits because of a clock
// that was ahead is given to a worker. A Table belongs to one goroutine.
type Table struct {
	w      World
	heap   waiting
	by     map[string]*entry // by key
	next   int64             // when the earliest alarm rings, by World.Now; 0: there is none
	looked int64             // when the records were last held against the time of day, by World.Now; 0: not yet
}

// entry is one record.
type entry struct {
	key     string
	version Version
	at      int64 // when it is to be given to a worker, in nanoseconds of Unix time
	due     int64 // as it is stored; at may be a moment after it
	low     int64 // as it is stored
	index   int   // in the heap; -1: it waits for no time
	with    core.NodeKey
	since   int64  // when that node was given it, by World.Now
	died    uint8  // nodes in a row that had it and died within a minute
	edited  bool   // by another than the node that has it
	why     string // it stays, though it is due
}

// Refused says that a worker has not taken records.
type Refused struct {
	List []Item
	By   core.NodeKey
	Err  error
}

const (
	// MaxFired bounds the records that are given to a worker together.
	MaxFired  = 256
	wallEvery = time.Minute // after which the time of day is read again, and what no worker could read is given again
	again     = time.Second // after which a record is given again that no worker has taken, or moved on
	diesSoon  = time.Minute // a node that dies later is not taken for one that the record's work has ended
)

// Build reads the records of the shard. Arm sets the first alarm.
func (t *Table) Build(w World) {
	*t = Table{w: w, by: map[string]*entry{}}
	w.Scan(Prefix, func(key string) bool {
		t.lookAtKey(key)
		return true
	})
}

// Look enters a record as it is stored.
func (t *Table) Look(key string) {
	t.lookAtKey(key)
	t.Arm()
}

func (t *Table) lookAtKey(key string) {
	rec, version, ok := t.w.Record(key)
	e := t.by[key]
	switch {
	case !ok && e != nil:
		t.set(e, 0)
		delete(t.by, key)
		if e.with != (core.NodeKey{}) && t.w.Ready() { // it was deleted while a worker has it
			t.w.Fire(e.with, []Item{{Name: NameOf(key), Version: e.version, Now: t.w.Wall().UnixNano()}})
		}
	case ok && e == nil:
		e = &entry{key: key, index: -1}
		t.by[key] = e
	}
	if !ok {
		return
	}
	e.version, e.due, e.low = version, rec.Due, rec.low()
	at := rec.Due
	switch {
	case e.with != (core.NodeKey{}) && e.edited:
		at = 1
	case rec.At != (core.NodeKey{}) && e.with == (core.NodeKey{}):
		if e.with, e.since = rec.At, t.w.Now(); !t.w.Alive(rec.At) {
			e.with, at = core.NodeKey{}, 1
		}
	}
	e.edited = false
	t.set(e, at)
}

// set has the record wait for a time; 0: for none.
func (t *Table) set(e *entry, at int64) {
	e.at = at
	switch {
	case at == 0 && e.index >= 0:
		heap.Remove(&t.heap, e.index)
	case at == 0:
	case e.index >= 0:
		heap.Fix(&t.heap, e.index)
	default:
		heap.Push(&t.heap, e)
	}
}

// Arm sets the alarm for the next record, unless one rings before.
func (t *Table) Arm() {
	if len(t.heap) == 0 {
		return
	}
	wait := min(max(time.Duration(t.heap[0].at-t.w.Wall().UnixNano()), 0), wallEvery)
	if !t.w.Ready() {
		wait = again
	}
	rings := core.After(t.w.Now(), wait)
	if t.next != 0 && t.next <= rings {
		return
	}
	t.next = rings
	t.w.Ring(wait, rings)
}

// Rang gives what is due to workers.
func (t *Table) Rang(at int64) {
	if t.next != at {
		return // one that was set later rings sooner
	}
	t.next = 0
	if t.w.Ready() {
		now := t.w.Wall().UnixNano()
		t.findAhead(now)
		t.give(now)
	}
	t.Arm()
}

// findAhead has what waits because of a clock that was ahead be given to a worker. It looks each minute.
func (t *Table) findAhead(now int64) {
	if at := t.w.Now(); t.looked == 0 || at-t.looked >= int64(wallEvery) {
		t.looked = at
	} else {
		return
	}
	var ahead []*entry
	for _, e := range t.heap {
		pause := e.at != e.due && e.at > now+int64(wallEvery) // longer than any that this table makes
		if e.low > now || pause {
			ahead = append(ahead, e)
		}
	}
	for _, e := range ahead {
		t.set(e, 1)
	}
}

// to is who gets records: a worker, or one that has a function.
type to struct {
	with                core.NodeKey
	function, namespace string
}

func (t *Table) give(now int64) {
	lists := map[to][]Item{}
	var order []to // which a seed repeats
	for len(t.heap) > 0 && t.heap[0].at <= now {
		e := t.heap[0]
		t.set(e, 0)
		it := t.Item(e.key)
		k := to{with: e.with}
		if e.with == (core.NodeKey{}) { // another one was told of the dead ones
			it.Died = e.died
			k = to{function: it.Record.Function, namespace: it.Namespace}
		}
		if lists[k] == nil {
			order = append(order, k)
		}
		lists[k] = append(lists[k], it)
	}
	for _, k := range order {
		for list := range slices.Chunk(lists[k], MaxFired) {
			with, err := k.with, error(nil)
			if with == (core.NodeKey{}) {
				with, err = t.w.Worker(k.function, k.namespace)
			}
			if err != nil {
				t.Refused(Refused{list, core.NodeKey{}, err})
				continue
			}
			for i := range list {
				e := t.by[list[i].Key()]
				if e.why = ""; e.with != with {
					e.with, e.since = with, t.w.Now()
				}
			}
			t.w.Fire(with, list)
		}
	}
}

// Refused has records given again, to any worker, after a pause.
func (t *Table) Refused(r Refused) {
	for i := range r.List {
		if e := t.by[r.List[i].Key()]; e != nil && e.with == r.By {
			e.with, e.why = core.NodeKey{}, r.Err.Error()
			t.set(e, t.after(again))
		}
	}
	t.Arm()
}

// after is the time of day in a while.
func (t *Table) after(d time.Duration) int64 { return t.w.Wall().Add(d).UnixNano() }

// Done notes that a node works at a record no more. Look comes after it, or Stay.
func (t *Table) Done(key string, by core.NodeKey) {
	if e := t.by[key]; e != nil && has(e, by) {
		e.with, e.died, e.why = core.NodeKey{}, 0, ""
	}
}

// has reports whether a node has the record: one without a cluster is alone.
func has(e *entry, by core.NodeKey) bool { return e.with == by || by.Incarnation == 0 }

// Hold gives a record to nobody while an edit of it is on its way, which would not know what has begun. Look comes after it, or a minute.
func (t *Table) Hold(key string) {
	if e := t.by[key]; e != nil && e.index >= 0 {
		t.set(e, max(e.at, t.after(wallEvery)))
	}
}

// Changed notes that the node which has a record has stored how far it is, with the dead nodes that it was told of; or that somebody else has
// edited it: what nodes died under may be another work now. Look comes after it.
func (t *Table) Changed(key string, edited bool) {
	if e := t.by[key]; e != nil {
		e.edited, e.died = edited, 0
	}
}

// Unchanged reports whether a record is as it is stored.
func (t *Table) Unchanged(key string, next *Record) bool {
	rec, _, ok := t.w.Record(key)
	return ok && next != nil && rec.equal(next)
}

// Stay has a record that its worker gives back unchanged wait for its time, for a second at least.
func (t *Table) Stay(key string) {
	if e := t.by[key]; e != nil && e.due != 0 {
		t.set(e, max(e.due, t.after(again)))
		t.Arm()
	}
}

// Unread notes that a node cannot read a record, and why. It is given again after a minute.
func (t *Table) Unread(key string, by core.NodeKey, why string) {
	if e := t.by[key]; e != nil && has(e, by) {
		e.with, e.why = core.NodeKey{}, why
		t.set(e, t.after(wallEvery))
		t.Arm()
	}
}

// Reap has what dead nodes were given go to others.
func (t *Table) Reap(alive func(core.NodeKey) bool) {
	for _, e := range t.by {
		if e.with != (core.NodeKey{}) && !alive(e.with) {
			if e.died = min(e.died, 254) + 1; t.w.Now()-e.since > int64(diesSoon) {
				e.died = 0
			}
			e.with = core.NodeKey{}
			t.set(e, t.apart(e))
		}
	}
	t.Arm()
}

// apart is when a record is given to the next node: at once, but from its second dead node on up to as many seconds later, so that those that were
// only given together with one whose work ends nodes come to others.
func (t *Table) apart(e *entry) int64 {
	if e.died < 2 {
		return 1
	}
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, e.key, e.died)
	return t.after(time.Duration(h.Sum64() % uint64(time.Duration(min(e.died, 30))*time.Second)))
}

// Item is a record as answers have it: with the node that has it, why it stays, and the time of day.
func (t *Table) Item(key string) Item {
	it := Item{Name: NameOf(key), Now: t.w.Wall().UnixNano()}
	var ok bool
	if it.Record, it.Version, ok = t.w.Record(key); !ok {
		return it
	}
	if e := t.by[key]; e != nil {
		if it.Why = e.why; e.with != (core.NodeKey{}) {
			it.Record.At = e.with
		}
	}
	return it
}

// Page answers a query.
func (t *Table) Page(q *Query) (p Page) {
	var keys []string
	t.w.Scan(q.Prefix, func(key string) bool {
		if key >= q.From && strings.HasPrefix(NameOf(key).Name, q.Named) {
			keys = append(keys, key)
		}
		return q.Soonest || len(keys) <= q.Limit
	})
	p.Count = len(keys)
	if q.Soonest {
		time := func(key string) uint64 { // first what a worker has, last what has no time
			if e := t.by[key]; e != nil && e.with == (core.NodeKey{}) {
				return uint64(e.at) - 1
			}
			return 0
		}
		slices.SortStableFunc(keys, func(a, b string) int { return cmp.Or(cmp.Compare(time(a), time(b)), strings.Compare(a, b)) })
	} else if len(keys) > q.Limit {
		p.Next = keys[q.Limit]
	}
	for _, key := range keys[:min(len(keys), q.Limit)] {
		p.Items = append(p.Items, t.Item(key))
	}
	return p
}

// waiting implements heap.Interface: the soonest is the first.
type waiting []*entry

func (h waiting) Len() int { return len(h) }

func (h waiting) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(h[i].at, h[j].at), strings.Compare(h[i].key, h[j].key)) < 0
}

func (h waiting) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *waiting) Push(x any) {
	e := x.(*entry)
	e.index = len(*h)
	*h = append(*h, e)
}

// Pop implements heap.Interface.
func (h *waiting) Pop() any {
	n := len(*h) - 1
	e := (*h)[n]
	(*h)[n], e.index = nil, -1
	*h = (*h)[:n]
	return e
}
