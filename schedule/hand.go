package schedule

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/due"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/taskengine"
)

// hand is a record that this node works at, from when a leader gives it until the next record is stored and nothing of it runs here.
//
//	take ─▶ begin ─▶ fire ─▶ ended, fault ─▶ store ─▶ done
//	         ▲  └ not firm: store ─▶ fire      │ another has changed the record: what has happened here is told to that one
//	         └─────────────────────────────────┘
//
// What runs for longer than noteAfter is stored as running on this node: a new leader leaves it alone while the node lives, and lists show it.
// The time is that of the leader, which travels with each record: this node's time of day counts for nothing.
type hand struct {
	n     *node
	store due.Store
	name  due.Name

	mu      sync.Mutex // guards the rest
	now0    int64      // the leader's time of day, at got
	got     time.Time
	stored  due.Item
	rec     *record
	since   []func(*record)     // what has happened since rec was stored
	firm    map[int64]bool      // due times of the firings that may begin by what is stored: see record.firm
	live    map[int64]time.Time // firings that run here, and since when
	noted   bool                // it is stored that they do, or shall be
	noting  *time.Timer
	storing bool
	given   *due.Item // by a leader, while storing
	over    bool
}

// noteAfter is for how long a firing runs before that is stored.
const noteAfter = time.Second

func (n *node) take(store due.Store, it due.Item) {
	key := it.Key()
	n.mu.Lock()
	h := n.hands[key]
	if h == nil && it.Deleted() {
		n.mu.Unlock()
		return
	}
	if h == nil {
		h = &hand{n: n, store: store, name: it.Name, live: map[int64]time.Time{}}
		n.hands[key] = h
	}
	n.mu.Unlock()
	h.mu.Lock()
	if h.over { // it ends this moment
		h.mu.Unlock()
		n.take(store, it)
		return
	}
	h.unlock(h.give(it))
}

// unlock makes calls that were prepared under mu.
func (h *hand) unlock(calls []func()) {
	h.mu.Unlock()
	for _, f := range calls {
		f()
	}
}

// hear takes the time of day of a leader. mu is held.
func (h *hand) hear(now int64) { h.now0, h.got = now, time.Now() }

// now is the leader's time of day. mu is held.
func (h *hand) now() int64 { return plus(h.now0, int64(time.Since(h.got))) }

// after reports whether version a is later than b.
func after(a, b due.Version) bool { return a.Epoch > b.Epoch || a.Epoch == b.Epoch && a.Seq > b.Seq }

// give is for a record that a leader gives: the one that is here already, where that is due again, or was changed by others. mu is held.
func (h *hand) give(it due.Item) []func() {
	switch {
	case h.storing:
		h.given = &it
		return nil
	case it.Deleted():
		if !after(h.stored.Version, it.Version) {
			h.end()
		}
		return nil
	case h.rec == nil || after(it.Version, h.stored.Version):
		if calls, ok := h.read(it); !ok {
			if calls == nil { // another schedule has the name
				calls = []func(){func() { h.n.take(h.store, it) }}
			}
			return calls
		}
	case it.Version != h.stored.Version:
		return nil // it was sent before this node has stored the next one
	default:
		h.hear(it.Now)
	}
	now, jitter := h.now(), h.rec.Spec.jitter(h.name.Name)
	h.happened(func(r *record) { r.begin(h.now(), r.Spec.jitter(h.name.Name)) }) // told to a later record, at a later time: a clock may have been set
	for _, f := range h.rec.ready(h.live, now) {
		if it.Died > 0 && h.firm[f.Due] { // nodes before may have begun it
			h.happened(func(r *record) { r.died(f.Due, int(it.Died), now, jitter) })
		}
	}
	return h.step()
}

// read has what has happened here be told to the record as it is stored now. It returns false where this node works at it no more. mu is held.
func (h *hand) read(it due.Item) (calls []func(), ok bool) {
	h.hear(it.Now)
	r, err := decode(it.Record.Data)
	switch {
	case err != nil:
		h.end()
		back := due.Change{Name: h.name, Was: it.Version, Read: true, Done: true, Silent: true, Asked: clip(err.Error())}
		return []func(){func() {
			h.n.log.Error("the record of a schedule cannot be read", "schedule", h.name.Name, "error", err)
			h.giveBack(back)
		}}, false
	case h.rec != nil && h.rec.Set != r.Set && h.rec.Set != 0 && r.Set != 0: // it was deleted, and set anew: of that one nothing runs here
		h.end()
		return nil, false
	}
	h.stored, h.rec, h.firm = it, r, r.firm()
	for _, f := range h.since {
		f(r)
	}
	r.notes = nil // they were told
	return nil, true
}

// giveBack gives back a record that cannot be read, until the leader knows.
func (h *hand) giveBack(c due.Change) {
	h.store.Change(c, func(_ due.Item, _ bool, err error) {
		if err != nil && h.n.ctx.Err() == nil {
			time.AfterFunc(time.Second, func() { h.giveBack(c) })
		}
	})
}

// happened tells it to the record. mu is held.
func (h *hand) happened(f func(*record)) {
	f(h.rec)
	h.since = append(h.since, f)
}

// waiting lists the firings that can begin once the record is stored. mu is held.
func (h *hand) waiting() (list []firing) {
	for _, f := range h.rec.ready(h.live, h.now()) {
		if !h.firm[f.Due] {
			list = append(list, f)
		}
	}
	return list
}

// step begins what is ready, and stores the record where there is a need to. mu is held.
func (h *hand) step() (calls []func()) {
	if notes := h.rec.notes; len(notes) > 0 {
		h.rec.notes = nil
		calls = append(calls, func() { tell(h.n.log, h.name.Name, notes) })
	}
	for _, f := range h.rec.ready(h.live, h.now()) {
		if h.firm[f.Due] {
			h.live[f.Due] = time.Now()
			spec := h.rec.Spec
			calls = append(calls, func() { h.n.fire(h, &spec, f) })
		}
	}
	if len(h.live) > 0 && h.noting == nil {
		h.noting = time.AfterFunc(noteAfter, func() {
			h.mu.Lock()
			h.noted = true
			h.unlock(h.save())
		})
	}
	return append(calls, h.save()...)
}

// save stores the record when nothing runs here, when something has run for long, or waits for that. mu is held.
func (h *hand) save() []func() {
	if h.storing || h.over {
		return nil
	}
	waiting := h.waiting()
	done := len(h.live) == 0 && len(waiting) == 0
	if !done && len(waiting) == 0 && (!h.noted || len(h.since) == 0) {
		return nil
	}
	live := maps.Clone(h.live)
	for _, f := range waiting {
		live[f.Due] = time.Time{}
	}
	next := h.stored.Record
	if next.At = (core.NodeKey{}); !done {
		next.At = h.n.self()
	}
	next.Due = h.rec.due(live, h.rec.Spec.jitter(h.name.Name))
	rec, err := h.rec.encode(next)
	if err != nil {
		return []func(){func() {
			h.n.log.Error("the record of a schedule cannot be stored", "schedule", h.name.Name, "error", err)
		}}
	}
	h.storing = true
	was, told, firm := h.stored.Version, len(h.since), h.rec.firm()
	return []func(){func() {
		h.store.Change(due.Change{Name: h.name, Was: was, Next: rec, Done: done, Silent: true}, func(now due.Item, made bool, err error) {
			h.mu.Lock()
			h.storing = false
			switch {
			case h.n.ctx.Err() != nil:
				h.end()
			case err != nil:
				if errors.Is(err, raysys.ErrTooLarge) {
					h.rec.note("the record of a schedule cannot be stored", "error", err)
				}
				time.AfterFunc(time.Second, func() {
					if h.mu.Lock(); h.over {
						h.mu.Unlock()
						return
					}
					h.unlock(h.step())
				})
			default:
				if made {
					h.firm = firm
				}
				h.unlock(h.saved(now, rec, told, done, made))
				return
			}
			h.mu.Unlock()
		})
	}}
}

// saved goes on when the record was stored, or another one is. mu is held.
func (h *hand) saved(now due.Item, rec *due.Record, told int, done, made bool) (calls []func()) {
	given := h.given
	h.given, now.Name = nil, h.name
	ends := made && rec == nil || !now.Exists() // it is over, or was deleted; what still runs may run
	fresh := given != nil && !after(now.Version, given.Version) && (now.Exists() || after(given.Version, h.stored.Version))
	switch {
	case ends:
		h.end()
	case !made:
		var ok bool
		calls, ok = h.read(now)
		ends = !ok
	default:
		h.hear(now.Now)
		h.stored.Version, h.stored.Record = now.Version, *rec
		if h.since, ends = h.since[told:], done; done {
			h.end()
		}
	}
	switch {
	case ends && fresh: // the leader has given it, whatever this hand was told
		return append(calls, func() { h.n.take(h.store, *given) })
	case ends:
		return calls
	case fresh:
		return h.give(*given)
	}
	return h.step()
}

// end is for a record at which this node works no more. mu is held.
func (h *hand) end() {
	h.over = true
	if h.noting != nil {
		h.noting.Stop()
	}
	h.n.mu.Lock()
	if key := h.name.Key(); h.n.hands[key] == h {
		delete(h.n.hands, key)
	}
	h.n.mu.Unlock()
}

// self is this node and its incarnation.
func (n *node) self() core.NodeKey {
	t, _, err := core.TurnOf(n.ctx)
	if err != nil {
		return core.NodeKey{}
	}
	return core.NodeKey{Node: t.Job().Node, Incarnation: t.Job().Run}
}

// outcome waits for a firing.
type outcome struct {
	h      *hand
	due    int64
	waiter core.Waiter
}

// Resolved implements core.Resolved.
func (o *outcome) Resolved(w *core.Waiter) { o.h.ended(o.due, w.Future().Failure()) }

// fire makes the call, or submits the task.
func (h *hand) fire(s *spec, f firing) {
	w := &s.Work
	p, err := w.packed()
	if err != nil {
		h.ended(f.Due, err)
		return
	}
	o := &p.Opts
	if o.Deadline == 0 {
		o.NoLimit = true
	}
	ctx := fired.With(h.n.ctx, firedAs{h.name.Name, f.Due, f.Missed})
	submit := func(link core.Link) {
		o := &outcome{h: h, due: f.Due}
		if c := core.FutureOf(link); !c.Subscribe(&o.waiter, o) {
			h.ended(f.Due, c.Failure())
		}
	}
	if w.Kind != "" {
		if p.Keyed {
			o.Key = keyOf(h.name.Name, f.Due)
		}
		submit(grainengine.CallPacked(ctx, p, graindir.ID{Kind: w.Kind, Key: string(w.Key)}))
		return
	}
	o.Detached = true
	if s.Overlap != Allow {
		o.Name, o.Key = h.name.Name, keyOf(h.name.Name, f.Due)
	}
	go func() { submit(taskengine.GoPacked(ctx, p)) }() // it waits until the name is recorded
}

// keyOf is the raysys.Key of a firing: grainengine reads the due time at its end.
func keyOf(name string, at int64) string {
	end := " " + time.Unix(0, at).UTC().Format(time.RFC3339Nano)
	if len(core.FiringKey+name+end) > raysys.MaxKey {
		sum := sha256.Sum256([]byte(name))
		name = hex.EncodeToString(sum[:])
	}
	return core.FiringKey + name + end
}

// ended notes the outcome of a firing. A fault of the system is no outcome.
func (h *hand) ended(t int64, err error) {
	if err != nil && h.n.ctx.Err() != nil {
		return // with this node: another one makes it
	}
	h.mu.Lock()
	if h.over {
		h.mu.Unlock()
		return
	}
	ran := time.Since(h.live[t])
	delete(h.live, t)
	now, jitter, text := h.now(), h.rec.Spec.jitter(h.name.Name), ""
	if err != nil {
		text = clip(err.Error())
	}
	// A later record may be told when the leader's clock has been set back.
	if triedAgain(err) {
		// A call that had arrived, and whose link went down, is most often one whose node has died.
		died := ran < time.Minute && (errors.Is(err, raysys.ErrNodeDead) || errors.Is(err, raysys.ErrOutcomeUnknown))
		h.happened(func(r *record) { r.fault(t, min(now, h.now()), jitter, text, died) })
	} else {
		if err != nil {
			h.rec.note("a firing of a schedule failed", "due", time.Unix(0, t).UTC(), "error", err)
		}
		h.happened(func(r *record) { r.ended(t, min(now, h.now()), jitter, text) })
	}
	h.unlock(h.step())
}
