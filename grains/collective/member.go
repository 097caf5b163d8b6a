package collective

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/grains/internal/promise"
)

// Member is one rank in one epoch of a group. It takes one operation at a time, and every rank calls the same ones in
// the same order. After a RoundError it is of no use.
type Member[T Number] struct {
	d           *definition[T]
	group       string
	at          place
	root        promise.Root
	participant grains.Grain[participant[T]]
	first       string // key of rank 0's participant
	life        *promise.Promise[farewell]
	busy        atomic.Bool
	round       atomic.Uint64
	failed      atomic.Pointer[RoundError]
	offers      offers[T] // owned by the busy round, as spare
	spare       []T       // the vector of an earlier round, which is not shared any more; owned by the busy round
}

// Rank is the member's number, from 0 on.
func (m *Member[T]) Rank() int { return m.at.rank }

// Size is how many ranks there are.
func (m *Member[T]) Size() int { return m.at.size }

// Leave ends the member. Rounds that it completed go on for the others; further ones fail with ErrLeft. It does not
// wait, and may be called again.
func (m *Member[T]) Leave() {
	e := &RoundError{Group: m.group, Rank: m.at.rank, Reason: Left}
	m.failed.CompareAndSwap(nil, e)
	m.life.Settle(farewell{Reason: Left, Round: m.round.Load()})
}

// AllReduce combines the ranks' vectors, element by element, and returns the result to every rank: bit for bit the same
// one. vec may be used again when it returns, and the result is the caller's.
func (m *Member[T]) AllReduce(ctx context.Context, vec []T, op Op) ([]T, error) {
	o, err := m.do(ctx, request[T]{Sign: sign{Verb: verbAllReduce, Op: op, Len: len(vec)}, Vec: vec})
	return o.Vec, err
}

// Reduce is AllReduce whose result goes to rank root alone; the others get nil.
func (m *Member[T]) Reduce(ctx context.Context, root int, vec []T, op Op) ([]T, error) {
	o, err := m.do(ctx, request[T]{Sign: sign{Verb: verbReduce, Op: op, Root: root, Len: len(vec)}, Vec: vec})
	return o.Vec, err
}

// Barrier returns when every rank has called it.
func (m *Member[T]) Barrier(ctx context.Context) error {
	_, err := m.AllReduce(ctx, nil, Sum)
	return err
}

// Broadcast returns root's vector to every rank; what the others pass is not looked at. vec may be used again when it
// returns, and the result is the caller's. A large vector is copied for that on both sides, which Share does not.
func (m *Member[T]) Broadcast(ctx context.Context, root int, vec []T) ([]T, error) {
	req := request[T]{Sign: sign{Verb: verbBroadcast, Root: root, Len: -1}}
	if m.at.rank == root {
		if c := slices.Clone(vec); sizeOf[T](len(c)) <= small {
			req.Vec = c
		} else {
			req.Ref = raysys.Put(ctx, c).Handle()
		}
	}
	o, err := m.do(ctx, req)
	switch {
	case err != nil:
		return nil, err
	case m.at.rank == root:
		return vec, nil
	case o.Ref.Ref().IsZero():
		return slices.Clone(o.Vec), nil // the ranks of one process share it
	}
	v, err := o.Ref.Ref().Get(ctx)
	if err != nil {
		return nil, m.fail(reasonOf(err), "fetching what was broadcast: "+err.Error())
	}
	return slices.Clone(v), nil
}

// Share returns root's reference to every rank; what the others pass is not looked at. The vector behind it travels
// when a rank gets it, and belongs to all of them: it must not be changed.
func (m *Member[T]) Share(ctx context.Context, root int, ref raysys.Ref[[]T]) (raysys.Ref[[]T], error) {
	req := request[T]{Sign: sign{Verb: verbBroadcast, Root: root, Len: -1}}
	if m.at.rank == root {
		if ref.IsZero() {
			return ref, m.fail(Mismatch, "Share of the zero Ref")
		}
		req.Ref = ref.Handle()
	}
	o, err := m.do(ctx, req)
	switch {
	case err != nil:
		return raysys.Ref[[]T]{}, err
	case m.at.rank == root:
		return ref, nil
	case o.Ref.Ref().IsZero():
		return raysys.Put(ctx, o.Vec), nil // root called Broadcast with a small vector
	}
	return o.Ref.Ref(), nil
}

// do takes part in a round. It copies the vector, but for Broadcast, which has done so where it must.
func (m *Member[T]) do(ctx context.Context, req request[T]) (outcome[T], error) {
	var none outcome[T]
	if !m.busy.CompareAndSwap(false, true) {
		return none, fmt.Errorf("%s: rank %d: %w", m.group, m.at.rank, ErrBusy)
	}
	defer m.busy.Store(false)
	if e := m.failed.Load(); e != nil {
		return none, e
	}
	s := req.Sign
	switch {
	case s.Root < 0 || s.Root >= m.at.size:
		return none, m.fail(Mismatch, fmt.Sprintf("%v: there is no rank %d of %d", s.Verb, s.Root, m.at.size))
	case s.Verb != verbBroadcast && !s.Op.valid():
		return none, m.fail(Mismatch, fmt.Sprintf("%v: there is no operation %v", s.Verb, s.Op))
	}
	req.Patience, req.Round = m.d.patience, m.round.Load()
	switch there := m.asksOnly(req); {
	case s.Verb == verbAllReduce && m.at.size > 1 && sizeOf[T](s.Len) > doublingSize:
		return m.byObjects(ctx, req)
	case s.Verb == verbBroadcast:
	case !there:
		req.Vec = slices.Clone(req.Vec)
	default:
		req.Vec = append(m.spare[:0], req.Vec...)
		m.spare = nil
		if o, ok, err := m.byAsking(ctx, &req); ok || err != nil {
			return o, err
		}
	}
	return m.takePart(ctx, req)
}

// takePart has the participant do a round.
func (m *Member[T]) takePart(ctx context.Context, req request[T]) (none outcome[T], err error) {
	o, err := m.d.start.Call(m.root.Context(), m.participant, req).Get(ctx)
	switch {
	case err == nil && o.Fail != nil:
		return none, m.ended(o.Fail, farewell{Reason: Left})
	case err == nil:
		m.round.Add(1)
		return o, nil
	case errors.Is(err, raysys.ErrNoRuntime):
		return none, err
	}
	return none, m.fail(reasonOf(err), err.Error())
}

// asksOnly reports whether the round is one in which the rank does nothing but ask rank 0. Then it does so itself,
// since a way over its own participant would double the work.
func (m *Member[T]) asksOnly(req request[T]) bool {
	return req.Sign.Verb == verbAllReduce && m.at.rank > 0 && m.at.size <= starSize && sizeOf[T](len(req.Vec)) <= small
}

// byAsking takes part in a round by asking rank 0. When it ends without an answer the participant knows, or will
// know, why, and req is the request for it.
func (m *Member[T]) byAsking(ctx context.Context, req *request[T]) (o outcome[T], ok bool, err error) {
	p := part[T]{Round: req.Round, From: m.at.rank, Sign: req.Sign, Vec: req.Vec}
	r, err := m.d.ask.Call(m.root.Context(), m.d.participants.Get(m.first), p).Get(ctx)
	switch {
	case err == nil && r.Has:
		m.round.Add(1)
		// An answered request is not sent again, so its vector can be used for a later round. Strict mode would
		// report that as a changed argument.
		if !r.Took && !m.root.Strict() {
			m.spare = req.Vec
		}
		return outcome[T]{Vec: r.Part.Vec}, true, nil
	case ctx.Err() != nil:
		return o, false, m.fail(reasonOf(err), err.Error())
	case err == nil:
		req.Why = Lost
	case errors.Is(err, raysys.ErrDeadline):
		req.Why, req.Text = Late, fmt.Sprintf("rank %d waited for rank 0 in %v", m.at.rank, req.Sign)
	case errors.Is(err, raysys.ErrNoRuntime):
		return o, false, err
	default:
		req.Why, req.Text = Lost, err.Error()
	}
	req.Vec = nil
	return o, false, nil
}

// fail ends the member for a reason of its own, and tells the others.
func (m *Member[T]) fail(why Reason, text string) error {
	e := &RoundError{Group: m.group, Rank: m.at.rank, Round: m.round.Load(), Reason: why, Text: text}
	return m.ended(e, farewell{why, text, m.round.Load()})
}

func (m *Member[T]) ended(e *RoundError, f farewell) error {
	if !m.failed.CompareAndSwap(nil, e) {
		e = m.failed.Load()
	}
	m.life.Settle(f)
	return e
}
