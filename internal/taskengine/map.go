package taskengine

import (
	"context"
	"fmt"
	"sync/atomic"

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
	m := &bulk[A, R]{records: make([]record[A, R], len(xs))}
	seq := t.NextN(len(xs))
	for i := range m.records {
		r := &m.records[i]
		r.spec, r.arg = s, xs[i]
		r.Future.Init(r, t, seq+uint64(i), s.gated)
		refs[i] = raysys.Ref[R](r.Ref())
	}
	// One place in the queue per CPU: a worker that comes late finds its share, and a worker with a long task does
	// not keep others from the rest. On a node without CPUs one place serves the forwarder.
	for range min(len(xs), max(int(e.line.Total()/oneCPU), 1)) {
		p := &bulkItem[A, R]{bulk: m}
		p.Init(p, t, 0, false)
		e.push(&p.Future)
	}
	return refs
}

// bulk is the work of one Map.
type bulk[A, R any] struct {
	next    atomic.Int64 // the first record that no worker has looked at
	_       [56]byte
	records []record[A, R]
}

// bulkItem is one item of the run queue, which stands for what is left of a bulk.
type bulkItem[A, R any] struct {
	core.Future
	bulk *bulk[A, R]
}

// runAll implements batch. Workers take the records in strides: small enough that the last ones are shared.
func (m *bulkItem[A, R]) runAll(s *core.CPUSlot, yield func() bool) bool {
	n := int64(len(m.bulk.records))
	for {
		i := m.bulk.next.Add(1) - 1
		if i >= n {
			return true
		}
		if r := &m.bulk.records[i]; r.Future.Start() {
			r.run(s)
		}
		if yield() {
			return false
		}
	}
}

// hasMore implements batch.
func (m *bulkItem[A, R]) hasMore() bool { return m.bulk.next.Load() < int64(len(m.bulk.records)) }

// take implements batch.
func (m *bulkItem[A, R]) take() *core.Future {
	i := m.bulk.next.Add(1) - 1
	if i >= int64(len(m.bulk.records)) {
		return nil
	}
	return &m.bulk.records[i].Future
}

// rest implements batch.
func (m *bulkItem[A, R]) rest() (list []*core.Future) {
	records := m.bulk.records[min(m.bulk.next.Load(), int64(len(m.bulk.records))):]
	for i := range records {
		list = append(list, &records[i].Future)
	}
	return list
}

// entry implements batch.
func (m *bulkItem[A, R]) entry() *core.Entry { return m.bulk.records[0].spec.entry }

func (m *bulkItem[A, R]) run(*core.CPUSlot)                     {}
func (m *bulkItem[A, R]) Name() string                          { return "map" }
func (m *bulkItem[A, R]) Help(*core.Turn) bool                  { return false }
func (m *bulkItem[A, R]) Expires() int64                        { return 0 }
func (m *bulkItem[A, R]) Waits() ([]*core.Turn, []*core.Future) { return nil, nil }
func (m *bulkItem[A, R]) Break([]string) bool                   { return false }

// checkMap is check for many tasks.
func (s *spec[A, R]) checkMap(ctx context.Context) (*Engine, *core.Turn, error) {
	if s.opts.Name != "" {
		return nil, nil, fmt.Errorf("submit %s: %w: Detached(%q) with Map: a name is of one task, submit it with Go", s.entry, raysys.ErrBadOption, s.opts.Name)
	}
	return s.check(ctx)
}
