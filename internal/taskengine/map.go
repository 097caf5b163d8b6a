package taskengine

import (
	"context"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// Map is tasks.Task.Map, which is its only caller, as with Go.
func (k Task[A, R]) Map(ctx context.Context, xs []A) []raysys.Ref[R] {
	s := k.spec
	refs := make([]raysys.Ref[R], len(xs))
	if len(xs) == 0 {
		return refs
	}
	e, t, err := s.checkMap(ctx)
	if err != nil {
		failed := raysys.Ref[R](core.FailedRef[R](err))
		for i := range refs {
			refs[i] = failed
		}
		return refs
	}
	// Tasks are submitted one by one where each argument must be looked at.
	if s.refs || !s.fixed || !s.plain || s.opts.Deadline != 0 || s.opts.Classed || t.Job().Inspect != nil || capturedBy(t) != nil || !e.hasRoom() {
		for i, x := range xs {
			refs[i] = raysys.Ref[R](s.submit(ctx, x))
		}
		return refs
	}
	records := make([]record[A, R], len(xs))
	m := &bulk{
		entry: s.entry, first: &records[0].Future, n: int64(len(xs)), size: unsafe.Sizeof(records[0]),
		run: s.runAt,
	}
	seq := t.NextN(len(xs))
	for i := range records {
		r := &records[i]
		r.spec, r.arg = s, xs[i]
		r.Future.Init(r, t, seq+uint64(i), s.gated)
		refs[i] = raysys.Ref[R](core.RefTo(&r.Result))
	}
	// One place in the queue per CPU: a worker that comes late finds its share, and a worker with a long task does
	// not keep others from the rest. On a node without CPUs one place serves the forwarder.
	for range min(len(xs), max(int(e.line.Total()/oneCPU), 1)) {
		p := &bulkItem{bulk: m}
		p.place.Init(p, t, 0, false)
		e.push(&p.place)
	}
	return refs
}

// bulk is the work of one Map: an array of records, of which each begins with its Future.
type bulk struct {
	next  atomic.Int64 // the first record that no worker has looked at
	_     [56]byte
	entry *core.Entry
	first *core.Future
	n     int64
	size  uintptr
	run   func(c *core.Future, s *core.CPUSlot)
}

func (b *bulk) at(i int64) *core.Future {
	return (*core.Future)(unsafe.Add(unsafe.Pointer(b.first), uintptr(i)*b.size))
}

// bulkItem is one item of the run queue, which stands for what is left of a bulk.
type bulkItem struct {
	place core.Future
	bulk  *bulk
}

// runAll implements batch. Workers take the records in strides: small enough that the last ones are shared.
func (m *bulkItem) runAll(s *core.CPUSlot, yield func() bool) bool {
	b := m.bulk
	for {
		i := b.next.Add(1) - 1
		if i >= b.n {
			return true
		}
		if c := b.at(i); c.Start() {
			b.run(c, s)
		}
		if yield() {
			return false
		}
	}
}

// hasMore implements batch.
func (m *bulkItem) hasMore() bool { return m.bulk.next.Load() < m.bulk.n }

// take implements batch.
func (m *bulkItem) take() *core.Future {
	i := m.bulk.next.Add(1) - 1
	if i >= m.bulk.n {
		return nil
	}
	return m.bulk.at(i)
}

// rest implements batch.
func (m *bulkItem) rest() (list []*core.Future) {
	for i := m.bulk.next.Load(); i < m.bulk.n; i++ {
		list = append(list, m.bulk.at(i))
	}
	return list
}

// entry implements batch.
func (m *bulkItem) entry() *core.Entry { return m.bulk.entry }

func (m *bulkItem) run(*core.CPUSlot)                     {}
func (m *bulkItem) Name() string                          { return "map" }
func (m *bulkItem) Help(*core.Turn) bool                  { return false }
func (m *bulkItem) Expires() int64                        { return 0 }
func (m *bulkItem) Waits() ([]*core.Turn, []*core.Future) { return nil, nil }
func (m *bulkItem) Break([]string) bool                   { return false }

// checkMap is check for many tasks.
func (s *spec[A, R]) checkMap(ctx context.Context) (*Engine, *core.Turn, error) {
	if s.opts.Name != "" {
		return nil, nil, fmt.Errorf("submit %s: %w: Detached(%q) with Map: a name is of one task, submit it with Go", s.entry, raysys.ErrBadOption, s.opts.Name)
	}
	return s.check(ctx)
}
