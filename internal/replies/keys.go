package replies

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/wire"
)

// The newest Max replies to calls with keys are whole. When there are blockKeys more, the oldest become a block: the
// first 8 bytes of their ids, which are hashes. A call whose key is in a block has counted, and is not run. Of a new
// key a block may hold the same 8 bytes, with a probability of MaxKeys in 2^64: it is refused then, and wrongly.
//
//	Book.Add ──► whole ──► block ──► forgotten: a time, up to which keys are not known any more
//	                 └── KeepReplies is over ──┘
//
// The commit that puts a block comes before those that remove its replies, and a block goes in one commit with the
// time of its newest call. So a key is at each moment in a reply, in a block, or before forgotten.
type keys struct {
	blocks    []*block // the oldest first
	next      uint64   // the number of the next block
	keep      int64    // grains.KeepReplies, in milliseconds
	forgotten int64    // when the newest call was made whose key is not known any more, in ms since 1970; or 0
	seen      int64    // when forgotten was first seen to be of a clock that was ahead, in ms since 1970; or 0
	raised    bool     // forgotten is to be stored
	early     int      // keys that went before KeepReplies was over
	sizes     keySizes
}

// keySizes bound what is known of keys. Tests have smaller ones than usualSizes.
type keySizes struct {
	whole  int // replies that stay whole
	block  int // keys of a block
	blocks int // one more while the oldest goes
}

var usualSizes = keySizes{whole: Max, block: blockKeys, blocks: (MaxKeys-Max)/blockKeys - 2}

// MaxKeys is how many keys a grain knows at most: in memory and in the store they take 8 bytes each.
const MaxKeys = 262144

const (
	blockKeys = 1024
	// clocks is how much the clocks of nodes may differ: a call that was first made so long after forgotten may be
	// before it.
	clocks = 5 * time.Second
	// ahead is how far a time may be in the future: one beyond that is of a clock that was ahead, and counts as the
	// time at which that was seen. What it overwrote is before that.
	ahead = time.Hour
	// lastTime is the largest time of a record, in milliseconds: the year 9999.
	lastTime = 253402300799999
)

// block is keys that have become hashes.
type block struct {
	number      uint64
	first, last int64       // when the oldest and the newest of their calls were made, in milliseconds since 1970
	hashes      []uint64    // in order
	starts      [257]uint16 // where those with a first byte begin: a grain may have to look into 250
}

// A block is stored as
//
//	format 1 | first | last | hashes, 8 bytes each
//
// under its number, 8 bytes in big-endian order; forgotten as
//
//	format 1 | forgotten
//
// under the empty name.
const keysFormat = 1

func (b *block) append(dst []byte) []byte {
	dst = wire.AppendUvarint(wire.AppendUvarint(append(dst, keysFormat), uint64(b.first)), uint64(b.last))
	for _, h := range b.hashes {
		dst = binary.LittleEndian.AppendUint64(dst, h)
	}
	return dst
}

func blockName(number uint64) string { return string(binary.BigEndian.AppendUint64(nil, number)) }

// AddStored adds a record of family graindir.SideKeys. Those of one grain come in the order of their names.
func (r *Book) AddStored(s graindir.Side) error {
	in := wire.NewReader(s.Data)
	if format := in.Byte(); in.Err() == nil && format != keysFormat {
		return fmt.Errorf(
			"%w: record %x of its keys is stored in format %d, and this program knows format %d: "+
				"it was written by a newer version",
			graindir.ErrUnreadable, s.Name, format, keysFormat)
	}
	sound := false
	switch len(s.Name) {
	case 0:
		r.keys.forgotten = int64(in.Uvarint())
		sound = r.keys.forgotten > 0 && r.keys.forgotten <= lastTime
	case 8:
		b := &block{number: binary.BigEndian.Uint64([]byte(s.Name))}
		b.first, b.last = int64(in.Uvarint()), int64(in.Uvarint())
		for n := min(in.Len()/8, blockKeys); len(b.hashes) < n; {
			b.hashes = append(b.hashes, in.Uint64())
		}
		b.order()
		sound = len(b.hashes) > 0 && 0 < b.first && b.first <= b.last && b.last <= lastTime
		r.keys.blocks, r.keys.next = append(r.keys.blocks, b), b.number+1
	}
	if in.Err() != nil || in.Len() > 0 || !sound {
		return fmt.Errorf("%w: record %x of its keys is damaged: %w", graindir.ErrUnreadable, s.Name, wire.ErrCorrupt)
	}
	return nil
}

// order makes the block ready for has.
func (b *block) order() {
	slices.Sort(b.hashes)
	for _, h := range b.hashes {
		b.starts[h>>56+1]++
	}
	for i := range b.starts[1:] {
		b.starts[i+1] += b.starts[i]
	}
}

func (b *block) has(hash uint64) bool {
	first := hash >> 56
	_, has := slices.BinarySearch(b.hashes[b.starts[first]:b.starts[first+1]], hash)
	return has
}

func (k *keys) over(b *block, now time.Time) bool { return now.UnixMilli() > b.last+k.keep }

// find returns the newest block that has the call's key and is not over.
func (k *keys) find(call raysys.TaskID, now time.Time) *block {
	for _, b := range slices.Backward(k.blocks) {
		if b.has(call.Hi) && !k.over(b, now) {
			return b
		}
	}
	return nil
}

// forget notes that the key of a call is not known any more.
func (k *keys) forget(made int64, now time.Time) {
	made = boundTime(max(min(made, now.UnixMilli()), k.past(now)))
	if made != k.forgotten {
		k.forgotten, k.seen, k.raised = made, 0, true
	}
}

// past is forgotten as it counts by a clock that says now.
func (k *keys) past(now time.Time) int64 {
	if k.forgotten <= now.Add(ahead).UnixMilli() {
		return k.forgotten
	}
	if ms := boundTime(now.UnixMilli()); k.seen == 0 || k.seen > ms {
		k.seen = ms
	}
	return k.seen
}

// boundTime is the time that a record may have which is nearest to ms: a clock may be before 1970, or after 9999.
func boundTime(ms int64) int64 { return min(max(ms, 1), lastTime) }

// store adds forgotten to a commit.
func (k *keys) store(c *graindir.Commit) {
	if k.raised {
		k.raised = false
		data := wire.AppendUvarint([]byte{keysFormat}, uint64(k.forgotten))
		c.Sides = append(c.Sides, graindir.Side{Family: graindir.SideKeys, Data: data})
	}
}

// fold adds to a commit which blocks go, and one that comes. It returns what that takes of limit. A block has less
// than a third of the bytes of the commit's removals: see maxForget in grainengine.
func (r *Book) fold(c *graindir.Commit, now time.Time, limit int) (n int) {
	k := &r.keys
	for len(k.blocks) > 0 && n < limit {
		b := k.blocks[0]
		over := k.over(b, now)
		if !over && len(k.blocks) <= k.sizes.blocks {
			break
		}
		if !over {
			k.early += len(b.hashes)
		}
		k.forget(b.last, now)
		k.blocks = slices.Delete(k.blocks, 0, 1)
		c.Sides = append(c.Sides, graindir.Side{Family: graindir.SideKeys, Name: blockName(b.number)})
		n++
	}
	if r.Kinds[OfKey].N < k.sizes.whole+k.sizes.block || n > 0 && n+limit/3 > limit || r.late() {
		return n
	}
	var old []*Reply
	for _, p := range r.Kinds[OfKey].order {
		switch {
		case p.Gone || r.ByCall[p.Call] != p:
			continue
		case p.Pending:
			return n
		}
		if old = append(old, p); len(old) == k.sizes.block {
			break
		}
	}
	if len(old) < k.sizes.block {
		return n
	}
	b := &block{number: k.next, first: old[0].Made, last: old[0].Made}
	for _, p := range old {
		b.hashes = append(b.hashes, p.Call.Hi)
		b.first, b.last = min(b.first, p.Made), max(b.last, p.Made)
		p.folded = true
		r.Spend(p)
	}
	b.order()
	k.blocks, k.next = append(k.blocks, b), k.next+1
	c.Sides = append(c.Sides, graindir.Side{Family: graindir.SideKeys, Name: blockName(b.number), Data: b.append(nil)})
	return n + limit/3
}

// makeKey keeps of the reply to a call of a task or grain that it has counted, as of a call with a key.
func (r *Book) makeKey(p *Reply) {
	r.uncount(p)
	r.Kinds[OfTurn].order = r.Kinds[OfTurn].order[1:]
	p.Kind, p.Status, p.Body = OfKey, StatusGone, nil
	k := &r.Kinds[OfKey]
	k.N++
	k.order = append(k.order, p)
	r.rewrite = append(r.rewrite, p)
}

// upTo is forgotten, with the blocks that are over and go with the next commit.
func (k *keys) upTo(now time.Time) int64 {
	forgotten := k.past(now)
	for _, b := range k.blocks {
		if k.over(b, now) {
			forgotten = max(forgotten, b.last)
		}
	}
	return forgotten
}

// WhyGone says why a call that has no reply must not run: it has counted, or may have. It is "" for a new call. old is
// a reply to a call with that key whose KeepReplies is over, nil where there is none.
func (r *Book) WhyGone(p, old *Reply, now time.Time) string {
	if p.Kind != OfDriver && r.keys.find(p.Call, now) != nil {
		return "the call was made, and the grain had to drop its reply"
	}
	if p.First == 0 || p.Kind != OfKey { // those of a turn and of a schedule have floors
		return ""
	}
	forgotten := r.keys.upTo(now)
	if old != nil {
		forgotten = max(forgotten, old.Made)
	}
	if forgotten == 0 || p.First >= forgotten+clocks.Milliseconds() {
		return ""
	}
	at := func(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339Nano) }
	return fmt.Sprintf(
		"it was first made at %s, and the grain has forgotten keys of up to %s: it may have counted, and is not run",
		at(p.First), at(forgotten))
}

// Known is how many keys of calls are known, and up to when keys have been forgotten; the zero time where none have.
func (r *Book) Known(now time.Time) (n int, forgotten time.Time) {
	n = r.Kinds[OfKey].N
	for _, b := range r.keys.blocks {
		if !r.keys.over(b, now) {
			n += len(b.hashes)
		}
	}
	if ms := r.keys.upTo(now); ms != 0 {
		forgotten = time.UnixMilli(ms)
	}
	return n, forgotten
}

// Behind reports whether replies are to go faster than they come: the next commits take fewer turns, and remove more.
func (r *Book) Behind() bool {
	return r.late() || r.Kinds[OfKey].N > r.keys.sizes.whole+3*r.keys.sizes.block
}

// late reports whether many removals wait for a commit. No block comes meanwhile, so each goes long after its replies.
func (r *Book) late() bool { return len(r.Forget) > 2*r.keys.sizes.block }

// TakeEarly returns how many keys have gone before their KeepReplies was over, since it was last asked.
func (r *Book) TakeEarly() (n int) {
	n, r.keys.early = r.keys.early, 0
	return n
}
