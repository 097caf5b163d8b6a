package replay

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
)

// A checkpoint of a buffer is a manifest under its name, and an object for each shard, all raysys.OnDisk. The manifest names them, so it is
// what makes them one: it is written last, and read first.

// manifest says which shards belong together.
type manifest struct {
	ID       string
	Shards   int
	Print    uint64
	Limiters []string // of the tables; nil in checkpoints that were written without them
}

// saving is the argument of save and load.
type saving struct {
	Shard int
	Name  string // of the object
	// Step of a load: the object is read and kept, then taken, or dropped.
	Step int
	// Anew: the limiters count from the items as they are.
	Anew bool
}

// RestoreOption changes what Restore does.
type RestoreOption uint8

// ResetLimiter has the limiters of the tables begin anew, with the items of the checkpoint as they are: for a checkpoint of a Server whose
// limiters were others. A ratio begins in the middle of its error buffer, so that samples and inserts may go on; items that the earlier
// limiter has seen sampled too often, or too seldom, count no more. How often each item was sampled stays, for MaxTimesSampled.
const ResetLimiter RestoreOption = 1

const (
	loadRead = iota
	loadTake
	loadDrop
)

// Checkpoint stores all tables under a name, in the files of the nodes that have the shards, in place of what the name stood for before.
// Shards go on meanwhile: each is stored as it is at one moment. The nodes need a directory: see raysys.OnDisk.
func (c *Client[T]) Checkpoint(ctx context.Context, name string) error {
	if err := c.b.checkpoint(ctx, name); err != nil {
		return fmt.Errorf("checkpoint %q of %v: %w", name, c, err)
	}
	return nil
}

// Restore replaces all tables by those of a checkpoint: all of them, or none where one cannot be read. A checkpoint of another Server, of
// other tables, of another type of steps or of another number of shards is ErrCheckpoint, and so is one of another limiter, whose counts might
// keep this one shut: see ResetLimiter. Items get other keys.
func (c *Client[T]) Restore(ctx context.Context, name string, opts ...RestoreOption) error {
	if err := c.b.restore(ctx, name, slices.Contains(opts, ResetLimiter)); err != nil {
		return fmt.Errorf("restore %q to %v: %w", name, c, err)
	}
	return nil
}

func (b *buffer) manifest(name string) string { return fmt.Sprintf("replay/%v/%s", b, name) }

func (b *buffer) part(name, id string, shard int) string {
	return fmt.Sprintf("%s/%s/%d", b.manifest(name), id, shard)
}

func (b *buffer) checkpoint(ctx context.Context, name string) error {
	old, err := raysys.Lookup[manifest](ctx, b.manifest(name)).Get(ctx)
	if err != nil && !errors.Is(err, raysys.ErrNotFound) {
		return err
	}
	m := manifest{ID: fmt.Sprintf("%016x", raysys.Rand(ctx).Uint64()), Shards: b.d.cfg.Shards, Print: b.d.print}
	for _, t := range b.d.cfg.Tables {
		m.Limiters = append(m.Limiters, t.Limiter.name)
	}
	if err := b.all(ctx, func(i int) raysys.Ref[int] {
		return b.d.save.With(raysys.NoDeadline()).Call(ctx, b.shard(i), saving{Shard: i, Name: b.part(name, m.ID, i)})
	}); err != nil {
		_ = b.forget(ctx, name, m) // of the shards that have stored theirs
		return err
	}
	if _, err := raysys.Put(ctx, m, raysys.Named(b.manifest(name)), raysys.OnDisk()).Get(ctx); err != nil {
		return err
	}
	return b.forget(ctx, name, old)
}

// forget removes the objects of a checkpoint.
func (b *buffer) forget(ctx context.Context, name string, m manifest) (bad error) {
	for i := range m.Shards {
		if err := raysys.Forget(ctx, b.part(name, m.ID, i)); err != nil && !errors.Is(err, raysys.ErrNotFound) {
			bad = errors.Join(bad, err)
		}
	}
	return bad
}

func (b *buffer) restore(ctx context.Context, name string, anew bool) error {
	m, err := raysys.Lookup[manifest](ctx, b.manifest(name)).Get(ctx)
	if err != nil {
		return err
	}
	if m.Print != b.d.print || m.Shards != b.d.cfg.Shards {
		return fmt.Errorf("%w: it has %d shards, of tables and steps %x; this one has %d, of %x", ErrCheckpoint, m.Shards, m.Print, b.d.cfg.Shards, b.d.print)
	}
	for i, t := range b.d.cfg.Tables {
		if i < len(m.Limiters) && m.Limiters[i] != t.Limiter.name && !anew {
			return fmt.Errorf("%w: the limiter of its table %q is %s, and here it is %s, which might stay shut by the counts of the other: give replay.ResetLimiter, and it begins anew",
				ErrCheckpoint, t.Name, m.Limiters[i], t.Limiter)
		}
	}
	step := func(step int) error {
		return b.all(ctx, func(i int) raysys.Ref[int] {
			return b.d.load.With(raysys.NoDeadline()).Call(ctx, b.shard(i), saving{Shard: i, Name: b.part(name, m.ID, i), Step: step, Anew: anew})
		})
	}
	if err := step(loadRead); err != nil {
		return errors.Join(err, step(loadDrop))
	}
	return step(loadTake)
}

func (b *buffer) all(ctx context.Context, call func(i int) raysys.Ref[int]) error {
	refs := make([]raysys.Ref[int], b.d.cfg.Shards)
	for i := range refs {
		refs[i] = call(i)
	}
	_, err := raysys.GetAll(ctx, refs).Values()
	return err
}

// save stores the tables as they are now. It is written on a goroutine, which ends with the call: the grain goes on.
func (s *shard) save(print uint64, a saving, l *grains.Later[int]) {
	s.mu.Lock()
	tables := make([][]item, len(s.tables))
	var counts []uint64
	for i, t := range s.tables {
		tables[i] = t.sorted()
		counts = append(counts, t.inserts, t.samples)
	}
	s.mu.Unlock()
	go func() {
		ctx := l.Context()
		data, err := encode(ctx, print, tables, counts)
		if err == nil {
			_, err = raysys.Put(ctx, data, raysys.Named(a.Name), raysys.OnDisk()).Get(ctx)
		}
		if err != nil {
			_ = l.Fail(err) // it may have ended otherwise, and so below
			return
		}
		_ = l.Settle(len(data))
	}()
}

func (s *shard) load(ctx context.Context, print uint64, a saving) (int, error) {
	switch a.Step {
	case loadRead:
		data, err := raysys.Lookup[[]byte](ctx, a.Name).Get(ctx)
		if err != nil {
			return 0, err
		}
		l, err := decode(data, print, len(s.tables))
		if err == nil {
			s.read, s.readName, s.took = l, a.Name, ""
		}
		return len(data), err
	case loadDrop:
		s.read, s.readName = nil, ""
		return 0, nil
	}
	if s.took == a.Name {
		return 0, nil // the call was made again
	}
	if s.readName != a.Name {
		return 0, fmt.Errorf("%w: shard %d was lost, or restored twice, meanwhile", ErrCheckpoint, s.number)
	}
	s.mu.Lock()
	for i, t := range s.tables {
		n := newTable(t.Table)
		for _, it := range s.read.items[i] {
			it.key = s.nextKey
			s.nextKey++
			n.insert(it, s.rand)
		}
		n.inserts, n.samples = s.read.counts[2*i], s.read.counts[2*i+1]
		if a.Anew {
			n.inserts = uint64(n.size())
			n.samples = n.Limiter.sampled(n.size())
		}
		s.tables[i] = n
	}
	s.read, s.readName, s.took = nil, "", a.Name
	ends := s.pump(nil)
	s.mu.Unlock()
	ends.settle()
	return 0, nil
}

// sorted returns the items in the order in which they came.
func (t *table) sorted() (list []item) {
	for _, it := range t.items {
		if it.chunk != nil {
			list = append(list, it)
		}
	}
	slices.SortFunc(list, func(a, b item) int { return cmp.Compare(a.key, b.key) })
	return list
}

// The encoding of a shard, in little endian:
//
//	magic, print, number of tables, number of chunks, the chunks, the tables, CRC-32C of all before
//	chunk: number of steps, where each ends, bytes
//	table: inserts, samples, number of items; of each its chunk, first and last step, times sampled, priority
const magic = "raysys/replay/1\n"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func encode(ctx context.Context, print uint64, tables [][]item, counts []uint64) ([]byte, error) {
	le := binary.LittleEndian
	out := le.AppendUint64([]byte(magic), print)
	numbers := map[*chunk]uint64{}
	var chunks []*chunk
	for _, list := range tables {
		for _, it := range list {
			if _, known := numbers[it.chunk]; !known {
				numbers[it.chunk] = uint64(len(chunks))
				chunks = append(chunks, it.chunk)
			}
		}
	}
	out = binary.AppendUvarint(out, uint64(len(tables)))
	out = binary.AppendUvarint(out, uint64(len(chunks)))
	lost := map[*chunk]bool{} // objects of nodes that died: their items are left out
	for _, c := range chunks {
		data, ends := c.data, c.ends
		if c.large {
			b, err := c.object.Ref().Get(ctx)
			if errors.Is(err, raysys.ErrObjectLost) {
				lost[c] = true
				out = binary.AppendUvarint(out, 0)
				continue
			}
			steps, err := unpack(raysys.Outcome[[]byte]{Value: b, Err: err})
			if err != nil {
				return nil, fmt.Errorf("an item that is an object: %w", err)
			}
			data, ends = nil, nil
			for _, s := range steps {
				data = append(data, s...)
				ends = append(ends, uint32(len(data)))
			}
		}
		out = binary.AppendUvarint(out, uint64(len(ends)))
		for _, e := range ends {
			out = binary.AppendUvarint(out, uint64(e))
		}
		out = append(out, data[:ends[len(ends)-1]]...)
	}
	for i, list := range tables {
		list = slices.DeleteFunc(list, func(it item) bool { return lost[it.chunk] })
		for _, v := range []uint64{counts[2*i], counts[2*i+1], uint64(len(list))} {
			out = binary.AppendUvarint(out, v)
		}
		for _, it := range list {
			first, last := uint64(it.first), uint64(it.last)
			for _, v := range []uint64{numbers[it.chunk], first, last, uint64(it.times)} {
				out = binary.AppendUvarint(out, v)
			}
			out = le.AppendUint64(out, math.Float64bits(it.priority))
		}
	}
	return le.AppendUint32(out, crc32.Checksum(out, castagnoli)), nil
}

// loaded is a checkpoint that was read.
type loaded struct {
	items  [][]item // by table
	counts []uint64
}

func decode(data []byte, print uint64, tables int) (l *loaded, err error) {
	bad := func(what string) (*loaded, error) { return nil, fmt.Errorf("%w: %s", ErrCheckpoint, what) }
	n := len(data) - 4
	if n < len(magic)+8 || string(data[:len(magic)]) != magic {
		return bad("it does not begin like one")
	}
	if crc32.Checksum(data[:n], castagnoli) != binary.LittleEndian.Uint32(data[n:]) {
		return bad("it is damaged")
	}
	r := reading{data: data[len(magic)+8 : n]}
	if binary.LittleEndian.Uint64(data[len(magic):]) != print || r.count() != tables {
		return bad("it is of other tables or steps")
	}
	chunks := make([]*chunk, r.count())
	for i := range chunks {
		c := &chunk{ends: make([]uint32, r.count())}
		last := uint32(0)
		for j := range c.ends {
			e := r.uvarint()
			if e < uint64(last) || e > uint64(len(r.data)) {
				return bad("steps lie outside of it")
			}
			last = uint32(e)
			c.ends[j] = last
		}
		if c.data = slices.Clone(r.bytes(int(last))); r.bad {
			return bad("it ends early")
		}
		chunks[i] = c
	}
	l = &loaded{items: make([][]item, tables)}
	for t := range l.items {
		l.counts = append(l.counts, r.uvarint(), r.uvarint())
		l.items[t] = make([]item, r.count())
		for i := range l.items[t] {
			c, first, last, times := r.uvarint(), r.uvarint(), r.uvarint(), r.uvarint()
			p := r.bytes(8)
			if r.bad || c >= uint64(len(chunks)) || first >= last || last > uint64(len(chunks[c].ends)) || times > math.MaxInt32 {
				return bad("an item has no steps")
			}
			l.items[t][i] = item{
				chunk: chunks[c], first: int32(first), last: int32(last), times: int32(times), priority: math.Float64frombits(binary.LittleEndian.Uint64(p)),
			}
			if checkPriority(l.items[t][i].priority) != nil {
				return bad("an item has no priority")
			}
		}
	}
	if r.bad || len(r.data) > 0 {
		return bad("it does not end where it should")
	}
	return l, nil
}

// reading takes numbers from data; bad says that they ended.
type reading struct {
	data []byte
	bad  bool
}

func (r *reading) uvarint() uint64 {
	v, n := binary.Uvarint(r.data)
	if n <= 0 {
		r.data, r.bad = nil, true
		return 0
	}
	r.data = r.data[n:]
	return v
}

// count is how many follow, each of which has a byte at least.
func (r *reading) count() int {
	n := r.uvarint()
	if n > uint64(len(r.data)) {
		r.data, r.bad = nil, true
		return 0
	}
	return int(n)
}

func (r *reading) bytes(n int) []byte {
	if n > len(r.data) {
		r.data, r.bad = nil, true
		return nil
	}
	b := r.data[:n]
	r.data = r.data[n:]
	return b
}
