package schedule

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/due"
)

// world is one schedule in one shard: its leader, a real due.Table over one stored record; workers, each with the real hand; and a client. What one
// tells another is a letter, which a step delivers, loses, or leaves for later. The ledger of the record is asked at each store and each begin.
type world struct {
	table   due.Table
	rec     due.Record
	version due.Version // zero: there is no record
	start   time.Time
	skew    int64 // of the leader's clock
	ahead   int64 // the most that one has had beside lo and hi
	lo, hi  int64 // least and most of skew
	rings   []int64
	workers []*worker
	client  []letter
	lives   map[int64]*ledger // by record.Set
	stored  map[due.Version]*record
	far     bool // a clock may be ahead by a month
	bad     bool // no worker can read the record
	given   int  // times to a worker
	births  int  // of workers
	read    int  // letters
	deaths  int  // that may have been under a firing
	err     error
	trace   *[]string

	mu     sync.Mutex // guards outbox, reports and ended of workers
	posted chan struct{}
}

// worker is a node, from its start to its end.
type worker struct {
	w       *world
	key     core.NodeKey
	n       *node
	stop    context.CancelFunc
	outbox  []letter
	reports []func()
	live    []firingOf
	ended   map[*fate]*ledger // told to a hand as outcomes
}

type firingOf struct {
	h   *hand
	due int64
	own *fate
	of  *ledger
}

// letter is a message on its way.
type letter struct {
	says string
	read func()
	lost func()
}

var errLost = errors.New("the answer was lost")

const lawName = "law"

// mostRead is ten times what the longest histories need.
const mostRead = 20_000

func newWorld(trace *[]string) *world {
	w := &world{start: time.Now(), lives: map[int64]*ledger{}, stored: map[due.Version]*record{}, trace: trace, posted: make(chan struct{}, 1)}
	w.table.Build(w)
	return w
}

func (w *world) logf(format string, args ...any) {
	if w.trace != nil {
		*w.trace = append(*w.trace, fmt.Sprintf("%s (leader %s) ", clock(time.Now().UnixNano()), clock(w.wall()))+fmt.Sprintf(format, args...))
	}
}

func (w *world) check(err error) {
	if w.err == nil && err != nil {
		w.err = err
		w.logf("%v", err)
	}
}

func (w *world) name() due.Name { return due.Name{Name: lawName} }
func (w *world) wall() int64    { return time.Now().UnixNano() + w.skew }

// most is the latest time of day that a leader may have told by now.
func (w *world) most() int64 { return time.Now().UnixNano() + max(w.hi, w.ahead) }

// setClock sets the clock of the leader.
func (w *world) setClock(skew int64, ahead bool) {
	if w.skew = skew; ahead {
		w.ahead = max(w.ahead, skew)
	} else {
		w.lo, w.hi = min(w.lo, skew), max(w.hi, skew)
	}
	w.logf("the leader's clock is off by %v", time.Duration(skew))
}

// Record implements due.World.
func (w *world) Record(string) (due.Record, due.Version, bool) {
	return w.rec, w.version, w.version != due.Version{}
}

// Scan implements due.World.
func (w *world) Scan(_ string, visit func(string) bool) {
	if w.version != (due.Version{}) {
		visit(w.name().Key())
	}
}

// Alive implements due.World.
func (w *world) Alive(k core.NodeKey) bool { return w.workerOf(k) != nil }

func (w *world) workerOf(k core.NodeKey) *worker {
	for _, o := range w.workers {
		if o.key == k {
			return o
		}
	}
	return nil
}

// Worker implements due.World: each in turn.
func (w *world) Worker(string, string) (core.NodeKey, error) {
	if len(w.workers) == 0 {
		return core.NodeKey{}, raysys.ErrNoCapacity
	}
	return w.workers[w.given%len(w.workers)].key, nil
}

// Fire implements due.World.
func (w *world) Fire(with core.NodeKey, list []due.Item) {
	w.given++
	refuse := func() { w.table.Refused(due.Refused{List: list, By: with, Err: raysys.ErrUnreachable}) }
	k := w.workerOf(with)
	if k == nil {
		return // its death comes to the leader
	}
	k.post(letter{fmt.Sprintf("the leader gives %v to %v", list[0].Version, with), func() {
		for _, it := range list {
			k.n.take(k, it)
		}
	}, refuse})
}

// Ready implements due.World.
func (w *world) Ready() bool { return true }

// Ring implements due.World.
func (w *world) Ring(_ time.Duration, at int64) { w.rings = append(w.rings, at) }

// Now implements due.World.
func (w *world) Now() int64 { return int64(time.Since(w.start)) + 1 }

// Wall implements due.World.
func (w *world) Wall() time.Time { return time.Unix(0, w.wall()) }

// rang rings the alarms whose time has come.
func (w *world) rang() {
	for slices.Sort(w.rings); len(w.rings) > 0 && w.rings[0] <= w.Now(); {
		at := w.rings[0]
		w.rings = w.rings[1:]
		w.table.Rang(at)
		slices.Sort(w.rings)
	}
}

// serve makes a change as the registry does. by is nil for a client, which asks for verb or s.
func (w *world) serve(c due.Change, by *worker, verb string, s *spec, now int64) (due.Item, bool) {
	key, from := w.name().Key(), core.NodeKey{Node: "client", Incarnation: 1}
	if by != nil {
		from = by.key
	}
	it := w.table.Item(key)
	known := c.Silent || c.Next == nil || c.Next.At == it.Record.At
	made := !c.Read && it.Version == c.Was && known
	stay := made && c.Done && w.table.Unchanged(key, c.Next)
	if made && !stay {
		w.commit(c.Next, by, verb, s, now)
		it = due.Item{Name: c.Name, Version: w.version, Record: w.rec}
		if c.Silent {
			it.Record.Data = nil
		}
	}
	switch {
	case c.Read && c.Done && it.Version == c.Was:
		w.table.Unread(key, from, c.Asked)
	case !made:
	case c.Done:
		if w.table.Done(key, from); stay {
			w.table.Stay(key)
		}
	default:
		w.table.Changed(key, !c.Silent)
	}
	if made && !stay {
		w.table.Look(key)
	}
	it.Now = w.wall()
	return it, made
}

func (w *world) commit(next *due.Record, by *worker, verb string, s *spec, now int64) {
	was := w.stored[w.version]
	var is *record
	var err error
	if next == nil {
		w.rec, w.version = due.Record{}, due.Version{}
	} else {
		w.rec, w.version = *next, due.Version{Epoch: 1, Seq: uint64(len(w.stored)) + 1}
		is, err = decode(next.Data)
		w.stored[w.version] = is
		w.logf("stored %v at %s by %v: due %s %s", w.version, clock(now), by, clock(next.Due), next.Data)
	}
	if w.bad {
		if w.bad = false; verb != verbDelete {
			w.check(fmt.Errorf("a record that nobody can read was changed by %v", by))
		}
		return
	}
	w.check(err)
	if w.err != nil {
		return
	}
	if was == nil {
		if w.lives[is.Set] != nil {
			w.check(fmt.Errorf("two records were set at %d", is.Set))
		}
		w.lives[is.Set] = newLedger(lawName, is)
	}
	l := w.lives[cmp.Or(was, is).Set]
	if was != nil && by == nil {
		w.check(l.edited(verb, s, now, w.most(), was, is))
	}
	if !l.over {
		t := time.Now().UnixNano()
		w.check(l.stored(was, is, by, t+w.lo, t+w.hi, w.most()))
	}
}

// deliver has one letter read, or lost.
func (w *world) deliver(n int, lost bool) {
	if w.read++; w.read > mostRead {
		w.check(fmt.Errorf("%d letters were read: they do not come to an end", w.read))
	}
	l, ok := w.take(n)
	switch {
	case !ok || w.err != nil:
	case lost:
		w.logf("lost: %s", l.says)
		l.lost()
	default:
		w.logf("%s", l.says)
		l.read()
	}
	w.hear()
}

// take takes a letter out of its box.
func (w *world) take(n int) (l letter, ok bool) {
	all := w.letters()
	if all == 0 {
		return l, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	boxes := []*[]letter{&w.client}
	for _, k := range w.workers {
		boxes = append(boxes, &k.outbox)
	}
	n %= all
	for _, b := range boxes {
		if n < len(*b) {
			l = (*b)[n]
			*b = slices.Delete(*b, n, n+1)
			return l, true
		}
		n -= len(*b)
	}
	return l, false
}

func (w *world) letters() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range w.workers {
		n += len(k.outbox)
	}
	return n + len(w.client)
}

// flow passes time, with all letters delivered; done has each firing succeed at once.
func (w *world) flow(d time.Duration, reads, done bool) {
	for end := time.Now().Add(d); w.err == nil; {
		synctest.Wait()
		w.hear()
		for w.rang(); reads && w.err == nil && w.letters() > 0; w.rang() {
			w.deliver(0, false)
		}
		if ran := done && w.outcome(0, 0); ran {
			continue
		}
		until := time.Until(end)
		if until <= 0 {
			return
		}
		if len(w.rings) > 0 {
			until = min(until, time.Duration(w.rings[0]-w.Now()))
		}
		select {
		case <-w.posted:
		case <-time.After(until):
		}
	}
}

func (k *worker) String() string {
	if k == nil {
		return "a client"
	}
	return string(k.key.Node)
}

func (k *worker) post(l letter) {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	k.outbox = append(k.outbox, l)
	k.w.wake()
}

func (w *world) wake() {
	select {
	case w.posted <- struct{}{}:
	default:
	}
}

// Change implements due.Store, for the hands of one worker.
func (k *worker) Change(c due.Change, done func(due.Item, bool, error)) {
	if k.n.ctx.Err() != nil {
		return
	}
	answer := func(it due.Item, made bool, err error) {
		lost := func() { done(due.Item{}, false, errLost) }
		read := func() { done(it, made, err) }
		if k.n.ctx.Err() == nil {
			k.post(letter{fmt.Sprintf("%v is answered: %v is stored, changed: %v, %v", k, it.Version, made, err), read, lost})
		}
	}
	if c.Next != nil {
		next := *c.Next
		if !c.Done {
			next.At = k.key
		}
		c.Next = &next
	}
	kept := k.kept(c.Next)
	k.post(letter{fmt.Sprintf("%v changes %v, done: %v", k, c.Was, c.Done), func() {
		for _, f := range kept {
			if l := k.ended[f]; !l.over && !l.ahead {
				k.w.check(fmt.Errorf("%v keeps %s as running, which has an outcome", k, clock(f.due)))
			}
		}
		it, made := k.w.serve(c, k, "", nil, k.w.wall())
		answer(it, made, nil)
	}, func() { answer(due.Item{}, false, errLost) }})
}

// kept lists firings that are stored as running, though the worker was told their outcomes.
func (k *worker) kept(next *due.Record) (list []*fate) {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	for f := range k.ended {
		if next != nil && bytes.Contains(next.Data, fmt.Appendf(nil, `{"Due":%d`, f.due)) {
			list = append(list, f)
		}
	}
	return list
}

// List implements due.Store.
func (k *worker) List(due.Query, func(due.Page, error)) {}

// Shards implements due.Store.
func (k *worker) Shards() int { return 1 }

// report has what a hand does be seen by the world, which hears of it next: a hand may do it when a timer rings.
func (k *worker) report(f func()) {
	k.w.mu.Lock()
	k.reports = append(k.reports, f)
	k.w.mu.Unlock()
	k.w.wake()
}

// hear hears what hands have done.
func (w *world) hear() {
	for _, k := range w.workers {
		w.mu.Lock()
		list := k.reports
		k.reports = nil
		w.mu.Unlock()
		for _, f := range list {
			f()
		}
	}
}

// fire takes the place of hand.fire.
func (k *worker) fire(h *hand, _ *spec, f firing) {
	v := h.stored.Version
	k.report(func() { k.begins(h, v, f) })
}

func (k *worker) begins(h *hand, v due.Version, f firing) {
	w, r := k.w, k.w.stored[v]
	w.logf("%v begins %s, missed %d, by %v", k, clock(f.Due), f.Missed, v)
	if r == nil {
		w.check(fmt.Errorf("%s begins by the record %v, which was not stored", clock(f.Due), v))
		return
	}
	l := w.lives[r.Set]
	o := firingOf{h, f.Due, l.fate(f.Due), l}
	if k.live = append(k.live, o); k.ended[o.own] != nil {
		w.check(fmt.Errorf("%v begins %s again, which has an outcome", k, clock(f.Due)))
	}
	w.check(l.began(k, r, f, v == w.version, w.most()))
}

func (w *world) born(n int) {
	for range n {
		w.births++
		k := &worker{w: w, key: core.NodeKey{Node: raysys.NodeID(fmt.Sprint("w", w.births)), Incarnation: uint64(w.births)}, ended: map[*fate]*ledger{}}
		k.n = &node{log: slog.New(k), fire: k.fire, hands: map[string]*hand{}}
		k.n.ctx, k.stop = context.WithCancel(context.Background())
		w.workers = append(w.workers, k)
		w.logf("%v is there", k)
	}
}

// die ends a worker; ran is a bit for each of its firings: whether it was made before.
func (w *world) die(n, ran int) {
	if len(w.workers) == 0 {
		return
	}
	n %= len(w.workers)
	k := w.workers[n]
	w.logf("%v dies", k)
	for i, f := range k.live {
		f.own.ran = f.own.ran || ran>>(i%4)&1 != 0
	}
	w.deaths++
	k.stop()
	w.workers = slices.Delete(w.workers, n, n+1)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range k.outbox { // what it has sent may arrive
		if ran&16 != 0 && strings.Contains(l.says, "changes") {
			w.client = append(w.client, l)
		}
	}
}
