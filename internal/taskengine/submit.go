package taskengine

import (
	"context"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// Runtime is what the core.Runtime of a node must have too, to run tasks.
type Runtime interface{ Tasks() *Engine }

func engineOf(t *core.Turn) *Engine { return t.Runtime().(Runtime).Tasks() }

// Of returns the engine of the node that ctx is of, nil without one.
func Of(ctx context.Context) *Engine {
	t, _, err := core.TurnOf(ctx)
	if err != nil {
		return nil
	}
	return engineOf(t)
}

func ended(ctx context.Context, t *core.Turn, own bool) error {
	if err := t.Cancelled(); err != nil {
		return err
	}
	if !own && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", raysys.ErrCancelled, context.Cause(ctx))
	}
	return nil
}

// With is the With of the handles.
func (k Task) With(opts []raysys.Option) Task { return Task{newSpec(k.spec, opts)} }

// Go is the Go of the handles, which are its only callers: a report about the argument names the line that calls those.
func Go[A, R any](ctx context.Context, k Task, arg A) core.Link {
	r := new(recordOf[A, R])
	r.arg = arg
	return k.spec.submit(ctx, &r.record)
}

// Go0, Go2 and Go3 are Go for functions with none, two and three parameters.
func Go0[R any](ctx context.Context, k Task) core.Link {
	return k.spec.submit(ctx, &new(recordOf[none, R]).record)
}

// Go2 is for two.
func Go2[A, B, R any](ctx context.Context, k Task, a A, b B) core.Link {
	r := new(recordOf[args2[A, B], R])
	r.arg.A, r.arg.B = a, b
	return k.spec.submit(ctx, &r.record)
}

// Go3 is for three.
func Go3[A, B, C, R any](ctx context.Context, k Task, a A, b B, c C) core.Link {
	r := new(recordOf[args3[A, B, C], R])
	r.arg.A, r.arg.B, r.arg.C = a, b, c
	return k.spec.submit(ctx, &r.record)
}

// On is the On of the handles: it submits a task whose parameters are the values behind refs. Each is borrowed now, so that the
// program may release it right after.
func (k Task) On(ctx context.Context, refs ...core.Link) core.Link {
	s := k.spec
	e, t, err := s.check(ctx)
	if err != nil {
		return s.failed(err)
	}
	if b := capturedBy(t); b != nil {
		s = s.within(b)
	}
	futures := make([]*core.Future, len(refs))
	for i, l := range refs {
		if futures[i] = core.FutureOf(l); futures[i] == nil {
			return s.failed(fmt.Errorf("submit %s: %w: parameter %d is the zero Ref", s.entry, raysys.ErrInvalidRef, i+1))
		}
	}
	r := s.record()
	params := s.params(r.argAt())
	for i, p := range params {
		err := p.set(futures[i])
		if err == nil {
			err = p.future.Borrow(t)
		}
		if err != nil {
			for _, b := range params[:i] {
				b.future.Return()
			}
			return s.failed(fmt.Errorf("submit %s: parameter %d: %w", s.entry, i+1, err))
		}
	}
	r.Future.Init(r, t, t.Next(), s.value.Gated())
	if s.opts.Deadline != 0 || s.opts.Classed {
		s.ownTurn(r, t)
	}
	if err := s.roomForHeld(ctx, e, t); err != nil {
		for _, p := range params {
			p.future.Return()
		}
		return s.failed(err)
	}
	d := &deps{futures: futures, byRef: futures}
	d.params.Store(&params)
	r.hold(t, d)
	r.inner(d, r)
	return s.release(ctx, t, r, d)
}

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
