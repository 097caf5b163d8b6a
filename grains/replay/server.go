package replay

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"reflect"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
)

// Server is a kind of replay buffers whose steps are of type T. Make it once, in a package variable.
type Server[T any] struct{ d *definition }

// definition is a Server without its type.
type definition struct {
	name   string
	cfg    Config
	plan   *codec.Plan // of a step
	print  uint64      // of tables and steps
	kind   grains.Kind[shard]
	insert grains.Func[shard, batch, uint64]
	sample grains.Func[shard, question, answer]
	change grains.Func[shard, change, int]
	info   grains.Func[shard, int, ShardInfo]
	save   grains.Func[shard, saving, int]
	load   grains.Func[shard, saving, int]
	end    grains.Act0[shard]
}

// Define makes a kind of replay buffers under name, in the process-wide table. A bad definition is reported by system.New. opts are for the
// kind of its grains: grains.Holds, grains.Placement.
func Define[T any](name string, cfg Config, opts ...grains.Option) Server[T] {
	return Server[T]{define(core.DefaultTable, name, reflect.TypeFor[T](), cfg, opts)}
}

// DefineIn is Define in a table of your own, for tests.
func DefineIn[T any](t *raysys.Table, name string, cfg Config, opts ...grains.Option) Server[T] {
	return Server[T]{define(t, name, reflect.TypeFor[T](), cfg, opts)}
}

// longIdle keeps items in memory, however long nobody asks for them.
const longIdle = 365 * 24 * time.Hour

// patience is how long a shard keeps a call at a time: less than the deadline of a call, so that the answer says which limiter is shut.
const patience = 10 * time.Second

func define(t *raysys.Table, name string, step reflect.Type, cfg Config, opts []grains.Option) *definition {
	cfg, bad := cfg.complete()
	plan, err := codec.PlanOf(step)
	if err == nil && plan.HasRefs() {
		err = fmt.Errorf("%v has references: put what they stand for into the step", step)
	}
	if bad = errors.Join(bad, err); bad != nil {
		t.Add("replay", name, 0, fmt.Errorf("%w: %w", ErrConfig, bad), 3)
	}
	d := &definition{name: name, cfg: cfg, plan: plan}
	if plan != nil {
		h := fnv.New64a()
		fmt.Fprint(h, plan.Fingerprint())
		for _, t := range cfg.Tables {
			fmt.Fprintf(h, "/%q", t.Name)
		}
		d.print = h.Sum64()
	}
	opts = append([]grains.Option{grains.IdleAfter(longIdle), grains.Placement(raysys.Spread), grains.Mailbox(65536), grains.Unfiltered()}, opts...)
	d.kind = grains.DefineIn[shard](t, name, opts...)
	d.insert = grains.LaterMethod(d.kind, "insert", func(s *shard, ctx context.Context, b batch, l *grains.Later[uint64]) error {
		s.begin(ctx, cfg, b.Shard)
		return s.insert(b, l)
	}).Idempotent()
	d.sample = grains.LaterMethod(d.kind, "sample", func(s *shard, ctx context.Context, q question, l *grains.Later[answer]) error {
		s.begin(ctx, cfg, q.Shard)
		return s.sample(q, l)
	}).Idempotent()
	d.change = grains.Method(d.kind, "change", func(s *shard, ctx context.Context, c change) (int, error) {
		s.begin(ctx, cfg, c.Shard)
		return s.change(c)
	}).Idempotent()
	d.info = grains.Method(d.kind, "info", func(s *shard, ctx context.Context, number int) (ShardInfo, error) {
		s.begin(ctx, cfg, number)
		return s.info(), nil
	}).Idempotent()
	d.save = grains.LaterMethod(d.kind, "save", func(s *shard, ctx context.Context, a saving, l *grains.Later[int]) error {
		s.begin(ctx, cfg, a.Shard)
		s.save(d.print, a, l)
		return nil
	}).Idempotent()
	d.load = grains.Method(d.kind, "load", func(s *shard, ctx context.Context, a saving) (int, error) {
		s.begin(ctx, cfg, a.Shard)
		return s.load(ctx, d.print, a)
	}).Idempotent()
	d.end = grains.Action0(d.kind, "end", func(_ *shard, ctx context.Context) error { return grains.Deactivate(ctx) }).Idempotent()
	return d
}

// Get returns the client of the buffer of that name. Keep it: it remembers which shard is next.
func (s Server[T]) Get(key string) *Client[T] {
	return &Client[T]{buffer{d: s.d, key: key, runs: map[int]uint64{}}}
}

// change changes priorities, or removes items.
type change struct {
	Shard      int
	Table      uint16
	Keys       []uint64
	Priorities []float64 // nil: the items go
}

func (s *shard) change(c change) (n int, err error) {
	if int(c.Table) >= len(s.tables) {
		return 0, fmt.Errorf("%w: number %d", ErrNoTable, c.Table)
	}
	if c.Priorities != nil && len(c.Priorities) != len(c.Keys) {
		return 0, fmt.Errorf("%w: %d priorities for %d keys", ErrConfig, len(c.Priorities), len(c.Keys))
	}
	for i, p := range c.Priorities {
		if err := checkPriority(p); err != nil {
			return 0, fmt.Errorf("item %d: %w", i, err)
		}
	}
	s.mu.Lock()
	if t := s.tables[c.Table]; c.Priorities != nil {
		n = t.update(c.Keys, c.Priorities)
	} else {
		n = t.drop(c.Keys)
	}
	ends := s.pump(nil)
	s.mu.Unlock()
	ends.settle()
	return n, nil
}

// Info is what a buffer has.
type Info struct{ Shards []ShardInfo }

// ShardInfo is what one shard has.
type ShardInfo struct {
	Run    uint64 // of the activation: a shard that was lost with its node has another
	Tables []TableInfo
}

// TableInfo is what one shard has of a table.
type TableInfo struct {
	Name             string
	Size             int
	Inserts, Samples uint64
	// Bytes of the steps of its items; those of objects are not counted.
	Bytes int64
	// Waiting calls, which the limiter keeps, and the reason for one of them; empty for none.
	WaitingInserts, WaitingSamples int
	Shut                           string
}

// Size is how many items the table has.
func (i Info) Size(table string) (n int) {
	for _, s := range i.Shards {
		for _, t := range s.Tables {
			if t.Name == table {
				n += t.Size
			}
		}
	}
	return n
}

func (s *shard) info() ShardInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := ShardInfo{Run: s.run}
	for i, t := range s.tables {
		ti := TableInfo{Name: t.Name, Size: t.size(), Inserts: t.inserts, Samples: t.samples}
		for _, it := range t.items {
			if it.chunk != nil && !it.chunk.large {
				ti.Bytes += int64(it.chunk.ends[it.last-1] - it.chunk.start(int(it.first)))
			}
		}
		line := &s.waits.lines[i]
		for at := line.inserts.Front(); at != nil; at = at.Next() {
			if !at.Value.(*inserting).over() {
				ti.WaitingInserts++
				ti.Shut = t.shut(true, s.number).Error()
			}
		}
		for at := line.samples.Front(); at != nil; at = at.Next() {
			if !at.Value.(*sampling).over() {
				ti.WaitingSamples++
				ti.Shut = t.shut(false, s.number).Error()
			}
		}
		r.Tables = append(r.Tables, ti)
	}
	return r
}
