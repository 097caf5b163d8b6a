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
func Map[A, R any](ctx context.Context, k Task, xs []A) []raysys.Ref[R] {
	refs := make([]raysys.Ref[R], len(xs))
	if len(xs) == 0 {
		return refs
	}
	e, t, err := k.spec.checkMap(ctx)
	switch {
	case err != nil:
		failed := raysys.Ref[R]{Link: k.spec.failed(err)}
		for i := range refs {
			refs[i] = failed
		}
	case k.spec.oneByOne(e, t):
		for i, x := range xs {
			r := new(recordOf[A, R])
			r.arg = x
			refs[i] = raysys.Ref[R]{Link: k.spec.submit(ctx, &r.record)}
		}
	default:
		records := make([]recordOf[A, R], len(xs))
		for i := range records {
			records[i].arg = xs[i]
		}
		k.spec.submitAll(e, t, &records[0].record, core.Links(refs))
	}
	return refs
}

// oneByOne reports whether the tasks of a Map are submitted one by one, since each argument must be looked at.
func (s *spec) oneByOne(e *Engine, t *core.Turn) bool {
	return s.refs || !s.fixed || !s.plain || s.opts.Deadline != 0 || s.opts.Classed || t.Job().Inspect != nil || capturedBy(t) != nil || !e.hasRoom()
}

// submitAll submits the records of an array that begins with first, and puts references to them into links.
func (s *spec) submitAll(e *Engine, t *core.Turn, first *record, links []core.Link) {
	m := &bulk{entry: s.entry, first: first, n: int64(len(links)), size: s.recordSize}
	seq, gated := t.NextN(len(links)), s.value.Gated()
	for i := range links {
		r := m.at(int64(i))
		r.spec = s
		r.Future.Init(r, t, seq+uint64(i), gated)
		links[i] = core.LinkTo(&r.Future)
	}
	// One place in the queue per CPU: a worker that comes late finds its share, and a worker with a long task does
	// not keep others from the rest. On a node without CPUs one place serves the forwarder.
	for range min(len(links), max(int(e.line.Total()/oneCPU), 1)) {
		p := &bulkItem{bulk: m}
		p.place.Init(p, t, 0, false)
		e.push(&p.place)
	}
}

// bulk is the work of one Map: an array of records.
type bulk struct {
	next  atomic.Int64 // the first record that no worker has looked at
	_     [56]byte
	entry *core.Entry
	first *record
	n     int64
	size  uintptr // of one
}

func (b *bulk) at(i int64) *record {
	return (*record)(unsafe.Add(unsafe.Pointer(b.first), uintptr(i)*b.size))
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
		if r := b.at(i); r.Future.Start() {
			r.run(s)
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
	return &m.bulk.at(i).Future
}

// rest implements batch.
func (m *bulkItem) rest() (list []*core.Future) {
	for i := m.bulk.next.Load(); i < m.bulk.n; i++ {
		list = append(list, &m.bulk.at(i).Future)
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
func (s *spec) checkMap(ctx context.Context) (*Engine, *core.Turn, error) {
	if s.opts.Name != "" {
		return nil, nil, fmt.Errorf("submit %s: %w: Detached(%q) with Map: a name is of one task, submit it with Go", s.entry, raysys.ErrBadOption, s.opts.Name)
	}
	return s.check(ctx)
}
