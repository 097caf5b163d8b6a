package grainengine

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/graindir"
)

// replies are what a durable grain remembers of calls that may be made again. durable.mu guards them. They have bounds, by
// who may make the call again:
//
//	a driver          its node is asked which it needs no more (open.go); the next call waits for that
//	a task, a grain   the oldest goes. Its turn has a floor then: a call of the turn up to there that has no reply may have
//	                  counted, and is not run
//	who has its key   the oldest loses its body, and its key stays: such a call has counted, and is not run
//
// What goes is removed by the next commit, with which floors and keys without bodies are stored. What is over (KeepReplies)
// counts for nothing.
type replies struct {
	byCall  map[raysys.TaskID]*reply
	forget  []raysys.TaskID // the next commits remove them
	rewrite []*reply        // without their bodies; the next commits store them so
	kinds   [replyKinds]repliesOfKind
	bodies  []*reply  // of keys, the oldest first
	swept   time.Time // when floors were
}

// repliesOfKind are those of one kind that have not gone.
type repliesOfKind struct {
	n, size int
	order   []*reply // the oldest first: the next that is over
}

// crowded reports whether half of the room is taken of what has a bound beyond which calls are refused, and may go: of drivers' replies,
// and of keys.
func (r *replies) crowded(kind replyKind) bool {
	k := &r.kinds[kind]
	return kind == ofDriver && (k.n >= maxReplies/2 || k.size >= maxReplyBytes/2) || kind == ofKey && k.n >= maxKeys/2
}

// replyKind is who may make a call again.
type replyKind uint8

const (
	ofDriver   replyKind = iota
	ofTurn               // of a task or a grain
	ofKey                // whoever knows the key
	aFloor               // it is no reply: no call of its turn up to seq may run
	replyKinds           // their number
)

// Bounds of what one grain remembers.
const (
	maxReplies    = 4096 // of drivers, and of turns
	maxReplyBytes = 512 << 10
	maxKeys       = 16384
	maxFloors     = 16384
)

// keysGo says what makes room for keys.
const keysGo = "a key goes when grains.KeepReplies of its kind is over, so a shorter one lets keys go earlier, and a call that is repeated later than that counts again; or spread the calls over more grains"

// floorLook is how often floors are looked through for those that are over.
const floorLook = time.Second

func newReplies(n int) replies { return replies{byCall: make(map[raysys.TaskID]*reply, n)} }

// weight is what the reply counts for.
func (p *reply) weight() int {
	if p.kind == aFloor || p.status == statusGone {
		return 0
	}
	return p.size()
}

// add remembers p, in place of what has its id.
func (r *replies) add(p *reply) {
	if old := r.byCall[p.call]; old != nil { // to a call with the same key, which is too old to count
		p.replaces = !old.unstored
		if !old.gone {
			r.uncount(old)
		}
	}
	r.byCall[p.call] = p
	k := &r.kinds[p.kind]
	k.n++
	k.size += p.weight()
	if p.kind == ofTurn || p.kind == ofKey {
		k.order = append(k.order, p)
	}
	if p.kind == ofKey && p.status != statusGone {
		r.bodies = append(r.bodies, p)
	}
}

func (r *replies) uncount(p *reply) {
	r.kinds[p.kind].n--
	r.kinds[p.kind].size -= p.weight()
}

// discard takes back one that was not stored.
func (r *replies) discard(p *reply) {
	if r.byCall[p.call] == p {
		delete(r.byCall, p.call)
		r.uncount(p)
	}
}

// spend has the next commit remove p.
func (r *replies) spend(p *reply) {
	if !p.gone {
		p.gone = true
		r.uncount(p)
		r.forget = append(r.forget, p.call)
	}
}

// first returns the oldest of a list that is remembered, and takes those before it out.
func (r *replies) first(list *[]*reply) *reply {
	for len(*list) > 0 {
		p := (*list)[0]
		if !p.gone && r.byCall[p.call] == p {
			return p
		}
		(*list)[0] = nil
		*list = (*list)[1:]
	}
	return nil
}

// sweep spends what is over.
func (r *replies) sweep(k replyKind, now time.Time) {
	for p := r.first(&r.kinds[k].order); p != nil && !p.pending && p.over(now); p = r.first(&r.kinds[k].order) {
		r.spend(p)
	}
}

// room makes room for p, or says why there is none.
func (r *replies) room(p *reply, now time.Time) error {
	k := &r.kinds[p.kind]
	full := func() bool { return k.n >= maxReplies || k.size >= maxReplyBytes }
	switch p.kind {
	case ofKey:
		if k.n < maxKeys && k.size < maxReplyBytes {
			return nil
		}
		r.sweep(ofKey, now)
		for k.size >= maxReplyBytes {
			old := r.first(&r.bodies)
			if old == nil || old.pending {
				break
			}
			r.strip(old)
		}
		if k.n >= maxKeys {
			return fmt.Errorf("%w: the grain remembers %d keys of calls, which is the most: %s", raysys.ErrOverloaded, k.n, keysGo)
		}
		full = func() bool { return k.size >= maxReplyBytes }
	case ofTurn:
		if full() {
			r.sweep(ofTurn, now)
		}
		for full() {
			old := r.first(&k.order)
			if old == nil || old.pending {
				break
			}
			if !r.raiseFloor(old, now) {
				return fmt.Errorf("%w: the grain keeps replies of %d tasks and grains that have made many calls of it, which is the most: call from fewer at a time", raysys.ErrOverloaded, maxFloors)
			}
			r.spend(old)
		}
	}
	if full() {
		return fmt.Errorf("%w: the grain keeps %d replies of %d bytes whose callers may ask for them again: wait for results, or call from fewer tasks at a time", raysys.ErrOverloaded, k.n, k.size)
	}
	return nil
}

// strip drops the body of a reply to a call with a key.
func (r *replies) strip(p *reply) {
	r.kinds[ofKey].size -= p.weight()
	p.status, p.body = statusGone, nil
	r.rewrite = append(r.rewrite, p)
	r.bodies = r.bodies[1:]
}

// raiseFloor says of the turn whose reply p goes that no call of it up to that one may run. It is false where there are too many
// floors.
func (r *replies) raiseFloor(p *reply, now time.Time) bool {
	f := r.byCall[p.turn]
	if f == nil || f.gone {
		if r.kinds[aFloor].n >= maxFloors && now.Sub(r.swept) >= floorLook {
			r.swept = now
			for _, f := range r.byCall {
				if f.kind == aFloor && f.over(now) {
					r.spend(f)
				}
			}
		}
		if r.kinds[aFloor].n >= maxFloors {
			return false
		}
		f = &reply{call: p.turn, kind: aFloor, status: statusFloor, unstored: f == nil || f.unstored}
		r.byCall[f.call] = f
		r.kinds[aFloor].n++
	}
	f.seq, f.until = max(f.seq, p.seq), max(f.until, p.until)
	p.floor = f
	return true
}

// below reports whether the call of p is not above the floor of its turn.
func (r *replies) below(p *reply, now time.Time) bool {
	if p.kind != ofTurn {
		return false
	}
	f := r.byCall[p.turn]
	return f != nil && f.kind == aFloor && p.seq <= f.seq && !f.over(now)
}

// changes returns up to limit replies that go with the next commit, and what it stores because of that.
func (r *replies) changes(now time.Time, limit int) (forget []raysys.TaskID, put []graindir.StoredReply) {
	for k := range r.kinds {
		if r.kinds[k].n > maxReplies/2 {
			r.sweep(replyKind(k), now)
		}
	}
	store := func(p *reply) {
		if !p.unstored {
			forget = append(forget, p.call)
		}
		p.unstored = false
		put = append(put, graindir.StoredReply{Call: p.call, Data: p.append(nil)})
	}
	var floors []*reply
	n := 0
	kept := r.forget[:0]
	for _, id := range r.forget {
		p := r.byCall[id]
		switch {
		case p == nil, !p.gone: // another call took its key
		case p.pending || n == limit:
			kept = append(kept, id)
		default:
			n++
			delete(r.byCall, id)
			forget = append(forget, id)
			if f := p.floor; f != nil && !slices.Contains(floors, f) {
				floors = append(floors, f)
			}
		}
	}
	clear(r.forget[len(kept):])
	r.forget = kept
	for _, f := range floors {
		if r.byCall[f.call] == f && !f.gone {
			store(f)
		}
	}
	for len(r.rewrite) > 0 && n < limit {
		p := r.rewrite[0]
		r.rewrite = r.rewrite[1:]
		if r.byCall[p.call] == p && !p.gone {
			n++
			store(p)
		}
	}
	return forget, put
}

// restored puts what was read from the store in the order of its age, and spends what is over.
func (r *replies) restored(now time.Time) {
	for _, p := range r.byCall {
		if p.over(now) {
			r.spend(p)
		}
	}
	byAge := func(a, b *reply) int { return cmp.Compare(a.until, b.until) }
	slices.SortStableFunc(r.bodies, byAge)
	for k := range r.kinds {
		slices.SortStableFunc(r.kinds[k].order, byAge)
	}
}
