package shardlog

import "slices"

// core decides over batches: it judges them, in the order in which they are proposed, against the committed records
// and those on their way, and sorts them into drafts of segments. It does no I/O, knows no time and holds no lock.
//
//	propose ──► overlay, last draft ──► take ──► (append) ──► commit ──► machine
type core struct {
	machine *machine
	epoch   uint64
	seq     uint64 // of the next change's Version
	overlay map[string]overlaid
	drafts  []*draft // what waits, oldest first; the last is open
	items   int      // in all drafts not yet committed
	bytes   int
}

// overlaid is a key as it will be when all drafts are committed.
type overlaid struct {
	record  Record
	deleted bool
	seq     uint64 // of the last change to the key
}

// draft becomes a segment. One without records only needs the fence.
type draft struct {
	first   uint64 // Seq of its first change
	raw     []byte
	changes []keyChange
	items   []item
	bytes   int
}

type keyChange struct {
	key     string
	record  Record // with its Version even when deleted
	deleted bool
}

// item is a proposal that waits for its draft.
type item struct {
	done   func(Result, error)
	result Result
	err    error // the check that did not hold: returned only when the records that it was judged against are committed
}

func newCore(m *machine, epoch uint64) *core {
	return &core{machine: m, epoch: epoch, seq: 1, overlay: map[string]overlaid{}}
}

// current returns the key's record when all drafts are committed.
func (c *core) current(key string) Record {
	if o, ok := c.overlay[key]; ok {
		if o.deleted {
			return Record{}
		}
		return o.record
	}
	return c.machine.records[key]
}

// propose judges a batch, whose changes take size bytes at most, and queues it.
func (c *core) propose(b Batch, size int, done func(Result, error)) {
	it := item{done: done}
	for _, check := range b.Checks {
		if now := c.current(check.Key); now.Version != check.Version {
			it.err = &ConflictError{Check: check, Current: now}
			size = 0
			break
		}
	}
	d := c.room(size)
	if it.err == nil && size > 0 {
		d.raw = slices.Grow(d.raw, size)
		for _, key := range b.Deletes {
			d.raw = appendDelete(d.raw, key)
			c.change(d, keyChange{key: key, deleted: true})
		}
		it.result = Result{Version{c.epoch, c.seq}, len(b.Puts)}
		for _, p := range b.Puts {
			d.raw = appendPut(d.raw, p.Key, p.Value)
			c.change(d, keyChange{key: p.Key, record: Record{Value: p.Value}})
		}
	}
	size += itemBytes
	d.items = append(d.items, it)
	d.bytes += size
	c.items++
	c.bytes += size
}

// itemBytes is about what a proposal takes beside its changes.
const itemBytes = 64

func (c *core) change(d *draft, ch keyChange) {
	ch.record.Version = Version{c.epoch, c.seq}
	d.changes = append(d.changes, ch)
	c.overlay[ch.key] = overlaid{ch.record, ch.deleted, c.seq}
	c.seq++
}

// room returns the open draft if size more bytes fit, else a new one.
func (c *core) room(size int) *draft {
	if n := len(c.drafts); n > 0 && len(c.drafts[n-1].raw)+size <= maxSegmentRaw {
		return c.drafts[n-1]
	}
	d := &draft{first: c.seq}
	c.drafts = append(c.drafts, d)
	return d
}

// take removes the oldest draft, nil when nothing waits. It must be committed, or nothing more may be.
func (c *core) take() *draft {
	if len(c.drafts) == 0 {
		return nil
	}
	d := c.drafts[0]
	c.drafts[0] = nil
	c.drafts = c.drafts[1:]
	return d
}

// block returns the segment that the draft becomes.
func (c *core) block(d *draft, id nonce) *block {
	return &block{kind: blockSegment, epoch: c.epoch, seq: c.machine.next, id: id, first: d.first, raw: d.raw}
}

// commit moves a draft that was appended from the overlay into the machine.
func (c *core) commit(d *draft) {
	for _, ch := range d.changes {
		if c.overlay[ch.key].seq == ch.record.Version.Seq {
			delete(c.overlay, ch.key)
		}
		if ch.deleted {
			c.machine.delete(ch.key)
		} else {
			c.machine.put(ch.key, ch.record)
		}
	}
	c.settle(d)
	if len(d.raw) > 0 {
		c.machine.epoch = c.epoch
		c.machine.next++
	}
}

// settle takes a draft off the count of what waits.
func (c *core) settle(d *draft) {
	c.items -= len(d.items)
	c.bytes -= d.bytes
}
