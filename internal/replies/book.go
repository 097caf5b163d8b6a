package replies

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/graindir"
)

// Book is what a durable grain remembers of calls that may be made again. The grain's lock guards it. It has bounds, by
// who may make the call again:
//
//	a driver          its node is asked which it needs no more; the next call waits for that
//	a task, a grain   the oldest goes. Its turn has a floor then: a call of the turn up to there that has no reply may have
//	                  counted, and is not run
//	who has its key   the oldest loses its body, and then its record: its key goes into a block (keys.go). Such a
//	                  call has counted, and is not run
//
// What goes is removed by the next commit, with which floors and keys without bodies are stored. What is over (KeepReplies)
// counts for nothing.
type Book struct {
	ByCall  map[raysys.TaskID]*Reply
	Kinds   [kinds]OfKind
	Forget  []raysys.TaskID // the next commits remove them
	rewrite []*Reply        // without their bodies; the next commits store them so
	bodies  []*Reply        // of keys, the oldest first
	keys    keys            // of calls whose replies have gone
	swept   time.Time       // when floors were
}

// OfKind are those of one kind that have not gone.
type OfKind struct {
	N, Size int
	order   []*Reply // the oldest first: the next that is over
}

// Crowded reports whether half of the room is taken of what has a bound beyond which calls are refused: of drivers'
// replies.
func (r *Book) Crowded(kind Kind) bool {
	k := &r.Kinds[kind]
	return kind == OfDriver && (k.N >= Max/2 || k.Size >= MaxBytes/2)
}

// Kind is who may make a call again.
type Kind uint8

// Who may make a call again.
const (
	OfDriver Kind = iota
	OfTurn        // of a task or a grain
	OfKey         // whoever knows the key
	floor         // it is no reply: no call of its turn up to seq may run
	kinds         // their number
)

// Bounds of what one grain remembers.
const (
	Max       = 4096 // of drivers, of turns, and of keys
	MaxBytes  = 512 << 10
	maxFloors = 16384
)

// floorLook is how often floors are looked through for those that are over.
const floorLook = time.Second

// New returns a Book with room for n replies, which keeps keys for that long.
func New(n int, keep time.Duration) Book {
	return Book{ByCall: make(map[raysys.TaskID]*Reply, n), keys: keys{keep: keep.Milliseconds(), sizes: usualSizes}}
}

// weight is what the reply counts for.
func (p *Reply) weight() int {
	if p.Kind == floor || p.Status == StatusGone {
		return 0
	}
	return p.Size()
}

// Add remembers p, in place of what has its id.
func (r *Book) Add(p *Reply) {
	if old := r.ByCall[p.Call]; old != nil { // to a call with the same key, which is too old to count
		p.Replaces = !old.unstored
		if !old.Gone {
			r.uncount(old)
		}
	}
	r.ByCall[p.Call] = p
	if p.Made == 0 && p.Until != 0 {
		p.Made = p.Until - r.keys.keep // of a record that does not say it
	}
	p.Made = boundTime(p.Made)
	k := &r.Kinds[p.Kind]
	k.N++
	k.Size += p.weight()
	if p.Kind == OfTurn || p.Kind == OfKey {
		k.order = append(k.order, p)
	}
	if p.Kind == OfKey && p.Status != StatusGone {
		r.bodies = append(r.bodies, p)
	}
}

func (r *Book) uncount(p *Reply) {
	r.Kinds[p.Kind].N--
	r.Kinds[p.Kind].Size -= p.weight()
}

// Discard takes back one that was not stored.
func (r *Book) Discard(p *Reply) {
	if r.ByCall[p.Call] == p {
		delete(r.ByCall, p.Call)
		r.uncount(p)
	}
}

// Spend has the next commit remove p.
func (r *Book) Spend(p *Reply) {
	if !p.Gone {
		p.Gone = true
		r.uncount(p)
		r.Forget = append(r.Forget, p.Call)
	}
}

// first returns the oldest of a list that is remembered, and takes those before it out.
func (r *Book) first(list *[]*Reply) *Reply {
	for len(*list) > 0 {
		p := (*list)[0]
		if !p.Gone && r.ByCall[p.Call] == p {
			return p
		}
		(*list)[0] = nil
		*list = (*list)[1:]
	}
	return nil
}

// Sweep spends what is over.
func (r *Book) Sweep(k Kind, now time.Time) {
	for p := r.first(&r.Kinds[k].order); p != nil && !p.Pending && p.Over(now); p = r.first(&r.Kinds[k].order) {
		r.Spend(p)
	}
}

// Room makes room for p, or says why there is none.
func (r *Book) Room(p *Reply, now time.Time) error {
	k := &r.Kinds[p.Kind]
	full := func() bool { return k.N >= Max || k.Size >= MaxBytes }
	switch p.Kind {
	case OfKey:
		full = func() bool { return k.Size >= MaxBytes } // of their number those beyond Max go into a block
		if full() {
			r.Sweep(OfKey, now)
		}
		for k.Size >= MaxBytes {
			old := r.first(&r.bodies)
			if old == nil || old.Pending {
				break
			}
			r.strip(old)
		}
	case OfTurn:
		if full() {
			r.Sweep(OfTurn, now)
		}
		for full() {
			old := r.first(&k.order)
			if old == nil || old.Pending {
				break
			}
			if r.raiseFloor(old, now) {
				r.Spend(old)
			} else {
				r.makeKey(old)
			}
		}
	}
	if full() {
		return fmt.Errorf("%w: the grain keeps %d replies of %d bytes whose callers may ask for them again: wait for results, or call from fewer tasks at a time", raysys.ErrOverloaded, k.N, k.Size)
	}
	return nil
}

// strip drops the body of a reply to a call with a key.
func (r *Book) strip(p *Reply) {
	r.Kinds[OfKey].Size -= p.weight()
	p.Status, p.Body = StatusGone, nil
	r.rewrite = append(r.rewrite, p)
	r.bodies = r.bodies[1:]
}

// raiseFloor says of the turn whose reply p goes that no call of it up to that one may run. It is false where there are too many
// floors.
func (r *Book) raiseFloor(p *Reply, now time.Time) bool {
	f := r.ByCall[p.Turn]
	if f == nil || f.Gone {
		if r.Kinds[floor].N >= maxFloors && now.Sub(r.swept) >= floorLook {
			r.swept = now
			for _, f := range r.ByCall {
				if f.Kind == floor && f.Over(now) {
					r.Spend(f)
				}
			}
		}
		if r.Kinds[floor].N >= maxFloors {
			return false
		}
		f = &Reply{Call: p.Turn, Kind: floor, Status: statusFloor, unstored: f == nil || f.unstored}
		r.ByCall[f.Call] = f
		r.Kinds[floor].N++
	}
	f.Seq, f.Until = max(f.Seq, p.Seq), max(f.Until, p.Until)
	p.floor = f
	return true
}

// Below reports whether the call of p is not above the floor of its turn.
func (r *Book) Below(p *Reply, now time.Time) bool {
	if p.Kind != OfTurn {
		return false
	}
	f := r.ByCall[p.Turn]
	if f == nil || f.Kind != floor || f.Over(now) {
		return false
	}
	// A turn counts its calls; the calls of a schedule have the times at which they were due, and one to come was by a clock that was ahead.
	return p.Seq <= f.Seq && f.Seq <= uint64(now.Add(time.Hour).UnixNano())
}

// Changes adds to a commit what goes with it, and what it stores because of that: about limit records are removed, or
// that many keys of records are written.
func (r *Book) Changes(c *graindir.Commit, now time.Time, limit int) {
	for k := range r.Kinds {
		if r.Kinds[k].N > Max/2 {
			r.Sweep(Kind(k), now)
		}
	}
	store := func(p *Reply) {
		if !p.unstored {
			c.Forget = append(c.Forget, p.Call)
		}
		p.unstored = false
		c.Replies = append(c.Replies, graindir.StoredReply{Call: p.Call, Data: p.Append(nil)})
	}
	var floors []*Reply
	n := r.fold(c, now, limit)
	kept := r.Forget[:0]
	for _, id := range r.Forget {
		p := r.ByCall[id]
		switch {
		case p == nil, !p.Gone: // another call took its key
		case p.Pending || n >= limit:
			kept = append(kept, id)
		default:
			n++
			delete(r.ByCall, id)
			c.Forget = append(c.Forget, id)
			if p.Kind == OfKey && !p.folded {
				r.keys.forget(p.Made, now)
			}
			if f := p.floor; f != nil && !slices.Contains(floors, f) {
				floors = append(floors, f)
				n += putCost
			}
		}
	}
	clear(r.Forget[len(kept):])
	r.Forget = kept
	for _, f := range floors {
		if r.ByCall[f.Call] == f && !f.Gone {
			store(f)
		}
	}
	for len(r.rewrite) > 0 && n < limit {
		p := r.rewrite[0]
		r.rewrite = r.rewrite[1:]
		if r.ByCall[p.Call] == p && !p.Gone {
			n += putCost
			store(p)
		}
	}
	r.keys.store(c)
}

// putCost is what a record that is written anew takes in a commit, in keys of records: it is removed and put.
const putCost = 3

// Restored puts what was read from the store in the order of its age, and spends what is over, and what is in a block.
func (r *Book) Restored(now time.Time) {
	for _, p := range r.ByCall {
		if p.Kind == OfKey {
			b := r.keys.find(p.Call, now)
			p.folded = b != nil && p.Made <= b.last // else it was made after a block with its key was over
		}
		if p.folded || p.Over(now) {
			r.Spend(p)
		}
	}
	byAge := func(a, b *Reply) int { return cmp.Compare(a.Until, b.Until) }
	slices.SortStableFunc(r.bodies, byAge)
	for k := range r.Kinds {
		slices.SortStableFunc(r.Kinds[k].order, byAge)
	}
}
