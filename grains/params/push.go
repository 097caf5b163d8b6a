package params

import (
	"context"
	"errors"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
)

// Push hands in a gradient that was computed on the weights of version at, and returns the version after the step it
// counted for. worker tells apart the pushes of one synchronous round; the same worker may push the same again.
//
// A synchronous Push that ends by its ctx, or Patience, with raysys.ErrDeadline was counted all the same: see Status
// for the workers that are missing, and push again to wait on.
func (m Model[T]) Push(ctx context.Context, at Version, worker int, values []T) (Version, error) {
	values = append([]T{}, values...) // the shards keep it until the round is complete
	waiting, cancel := context.WithTimeout(ctx, m.d.patience)
	defer cancel()
	taken := make([]raysys.Ref[raysys.Handle[Version]], m.d.shards)
	for i := range taken {
		lo, hi := m.d.span(len(values), i)
		taken[i] = m.d.push.Call(ctx, m.shard(i), gradient[T]{At: at, Worker: worker, Total: len(values), Values: values[lo:hi:hi]})
	}
	made := make([]raysys.Ref[Version], m.d.shards)
	bad := &PushError{Model: m.String(), Of: m.d.shards}
	for i, o := range raysys.GetAll(waiting, taken) {
		if o.Err != nil {
			bad.add(i, o.Err)
			continue
		}
		made[i] = o.Value.Ref()
	}
	if bad.Err != nil {
		return Version{}, bad
	}
	// A shard that is lost ends the wait for the others: the model has to be given weights again.
	for i, r := range raysys.AsCompleted(waiting, made) {
		got, err := r.Get(waiting)
		if err == nil && got.Run != at.Run {
			err = fmt.Errorf("%w: it was given others before the round was complete", ErrNoModel)
		}
		if err != nil {
			bad.add(i, lost(err))
			return Version{}, bad
		}
	}
	var v Version
	for i, r := range made {
		switch got, err := r.Get(waiting); {
		case err != nil: // waiting has ended before
			bad.add(i, fmt.Errorf("step %d lacks other workers' pushes: %w", at.Step, err))
		case v == (Version{}) || got.Step < v.Step:
			v = got
		}
	}
	if bad.Err != nil {
		return Version{}, bad
	}
	return v, nil
}

// lost says what the loss of a shard's promise means.
func lost(err error) error {
	if errors.Is(err, raysys.ErrObjectLost) {
		return fmt.Errorf("%w: its node is gone: %w", ErrNoModel, err)
	}
	return err
}

func (e *PushError) add(shard int, err error) {
	e.Shards = append(e.Shards, shard)
	if e.Err == nil {
		e.Err = err
	}
}

// Await returns when every shard has another version than have: for a program that uses the weights and does not
// push.
func (m Model[T]) Await(ctx context.Context, have Version) error {
	ctx, cancel := context.WithTimeout(ctx, m.d.patience)
	defer cancel()
	later, err := each(ctx, m, "await", func(_ int, g grains.Grain[shard[T]]) raysys.Ref[raysys.Handle[Version]] {
		return m.d.await.Call(ctx, g, have)
	})
	if err != nil {
		return err
	}
	for i, h := range later {
		v, err := h.Ref().Get(ctx)
		if err == nil && v == (Version{}) {
			err = ErrNoModel
		}
		if err != nil {
			return fmt.Errorf("await %v: shard %d: %w", m, i, lost(err))
		}
	}
	return nil
}
