package schedule

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
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
//	         ▲                                 │ another has changed the record: what has happened here is told to that one
//	         └─────────────────────────────────┘
//
// What runs for longer than noteAfter is stored as running on this node: a new leader leaves it alone while the node lives, and lists show it.
type hand struct {
	n     *node
	store due.Store
	name  due.Name

	mu      sync.Mutex // guards the rest
	stored  due.Item
	rec     *record
	since   []func(*record) // what has happened since rec was stored
	live    map[int64]bool  // firings that run here
	noted   bool            // it is stored that they do, or shall be
	note    *time.Timer
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
	if h == nil {
		h = &hand{n: n, store: store, name: it.Name, live: map[int64]bool{}}
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

// later reports whether version a is later than b.
func later(a, b due.Version) bool { return a.Epoch > b.Epoch || a.Epoch == b.Epoch && a.Seq > b.Seq }

// give is for a record that a leader gives: the one that is here already, where that is due again, or was changed by others. mu is held.
func (h *hand) give(it due.Item) []func() {
	switch {
	case h.storing:
		h.given = &it
		return nil
	case h.rec == nil || later(it.Version, h.stored.Version):
		if !h.read(it) {
			return nil
		}
	case it.Version != h.stored.Version:
		return nil // it was sent before this node has stored the next one
	}
	now, jitter := h.store.Now().UnixNano(), h.rec.Spec.jitter(h.name.Name)
	h.happened(func(r *record) { r.begin(now, jitter, it.Again) })
	return h.step()
}

// read has what has happened here be told to the record as it is stored now. It returns false for one that cannot be read here. mu is held.
func (h *hand) read(it due.Item) bool {
	r, err := decode(it.Record.Data)
	if err != nil {
		h.n.of.Log().Error("the record of a schedule cannot be read", "schedule", h.name.Name, "error", err)
		h.end()
		return false
	}
	h.stored, h.rec = it, r
	for _, f := range h.since {
		f(r)
	}
	return true
}

// happened tells it to the record. mu is held.
func (h *hand) happened(f func(*record)) {
	f(h.rec)
	h.since = append(h.since, f)
}

// step begins what is ready, and stores the record where there is a need to. mu is held.
func (h *hand) step() (calls []func()) {
	if now := h.store.Now().UnixNano(); h.rec.Retry <= now {
		for _, f := range h.rec.ready(h.live) {
			h.live[f.Due] = true
			spec := h.rec.Spec.Work
			calls = append(calls, func() { h.fire(&spec, f) })
		}
	}
	if len(h.live) > 0 && h.note == nil {
		h.note = time.AfterFunc(noteAfter, func() {
			h.mu.Lock()
			h.noted = true
			h.unlock(h.save())
		})
	}
	return append(calls, h.save()...)
}

// save stores the record when nothing runs here, or has run for long. mu is held.
func (h *hand) save() []func() {
	done := len(h.live) == 0
	if h.storing || h.over || !done && (!h.noted || len(h.since) == 0) {
		return nil
	}
	next := h.stored.Record
	if next.At = (core.NodeKey{}); !done {
		next.At = h.n.self()
	}
	next.Due = h.rec.due(h.live, h.rec.Spec.jitter(h.name.Name))
	rec, err := h.rec.encode(next)
	if err != nil {
		h.n.of.Log().Error("the record of a schedule cannot be stored", "schedule", h.name.Name, "error", err)
		return nil
	}
	h.storing = true
	told := len(h.since)
	return []func(){func() {
		h.store.Change(due.Change{Name: h.name, Was: h.stored.Version, Next: rec, Done: done, Silent: true}, func(now due.Item, made bool, err error) {
			h.mu.Lock()
			h.storing = false
			switch {
			case h.n.ctx.Err() != nil:
				h.end()
			case err != nil:
				time.AfterFunc(time.Second, func() {
					h.mu.Lock()
					h.unlock(h.save())
				})
			default:
				h.unlock(h.saved(now, rec, told, done, made))
				return
			}
			h.mu.Unlock()
		})
	}}
}

// saved goes on when the record was stored, or another one is. mu is held.
func (h *hand) saved(now due.Item, rec *due.Record, told int, done, made bool) []func() {
	given := h.given
	h.given = nil
	switch {
	case made && rec != nil:
		h.stored.Version, h.stored.Record = now.Version, *rec
		h.since = h.since[told:]
		if done {
			h.end()
			if given != nil && later(given.Version, now.Version) || given != nil && given.Version == now.Version {
				it := *given
				return []func(){func() { h.n.take(h.store, it) }}
			}
			return nil
		}
	case made || !now.Exists():
		h.end() // it is over, or was deleted; what still runs may run
		return nil
	default:
		if !h.read(now) {
			return nil
		}
		return h.step()
	}
	if given != nil && !later(h.stored.Version, given.Version) {
		return h.give(*given)
	}
	return h.save()
}

// end is for a record at which this node works no more. mu is held.
func (h *hand) end() {
	h.over = true
	if h.note != nil {
		h.note.Stop()
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
func (h *hand) fire(w *work, f firing) {
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
		submit(grainengine.CallPacked(ctx, p, graindir.ID{Kind: w.Kind, Key: w.Key}))
		return
	}
	o.Detached = true
	h.mu.Lock()
	named := h.rec.Spec.Overlap != Allow
	h.mu.Unlock()
	if named {
		o.Name = h.name.Name
	}
	go func() { submit(taskengine.GoPacked(ctx, p)) }() // it waits until the name is recorded
}

// keyOf is the raysys.Key of a firing.
func keyOf(name string, at int64) string {
	key := "schedule " + name + " " + time.Unix(0, at).UTC().Format(time.RFC3339Nano)
	if len(key) > raysys.MaxKey {
		sum := sha256.Sum256([]byte(key))
		key = "schedule " + hex.EncodeToString(sum[:])
	}
	return key
}

// ended notes the outcome of a firing. A fault of the system is no outcome.
func (h *hand) ended(t int64, err error) {
	if err != nil && h.n.ctx.Err() != nil {
		return // with this node: another one makes it
	}
	now := h.store.Now().UnixNano()
	h.mu.Lock()
	if h.over || h.rec == nil {
		h.mu.Unlock()
		return
	}
	delete(h.live, t)
	jitter := h.rec.Spec.jitter(h.name.Name)
	if err != nil && faulty(err) {
		h.happened(func(r *record) { r.fault(t, now, err) })
	} else {
		text := ""
		if err != nil {
			text = clip(err.Error())
			h.n.of.Log().Warn("a firing of a schedule failed", "schedule", h.name.Name, "due", time.Unix(0, t).UTC(), "error", err)
		}
		h.happened(func(r *record) { r.ended(t, now, jitter, text) })
	}
	h.unlock(h.step())
}

// faulty reports whether a firing that failed with err is made again: the method, or the function, has not said so, nor its deadline.
func faulty(err error) bool {
	var own *raysys.TaskError
	return !errors.As(err, &own) && !errors.Is(err, raysys.ErrDeadline) && !errors.Is(err, raysys.ErrKeyReused) && !errors.Is(err, raysys.ErrPanic)
}

// fired is what a firing carries.
var fired = raysys.NewContextKey[firedAs]("raysys.schedule")

type firedAs struct {
	Name   string
	Due    int64
	Missed uint64
}

// Firing is one firing of a schedule.
type Firing struct {
	Name string
	Due  time.Time // when it was due, without jitter
	// Missed is how many times were left out since the firing before.
	Missed int
}

// Fired returns the firing by which a call or a task was made, in that and in what it calls.
func Fired(ctx context.Context) (Firing, bool) {
	f, ok := fired.From(ctx)
	if !ok {
		return Firing{}, false
	}
	return Firing{f.Name, time.Unix(0, f.Due).UTC(), int(f.Missed)}, true
}
