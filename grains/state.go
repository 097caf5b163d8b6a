package grains

import (
	"context"
	"fmt"
	"reflect"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
)

// MaxState is the most that one State holds, encoded: 128 KiB.
const MaxState = 128 << 10

// State is a value that outlives its grain's activation, its node and its process. Make it a field of the grain's struct,
// exported or not; its name is the field's, or the tag's:
//
//	type Account struct {
//		balance grains.State[int] `raysys:"balance"`
//	}
//
// All States of a grain are loaded before OnActivate. Value is memory: change it and call Write, which returns when it is
// stored; a change that is not written is seen by later turns and goes with the activation. After a Write that failed
// the next turn begins with what is stored. T must be encodable; fields may be added to it and
// taken away between versions of the program. A reference in it holds what it refers to while it is stored: Write waits
// until that is ready. What is lost with its node is lost here too, and Get says so: raysys.Replicas keeps it.
//
// A grain with States is linearizable: no reply leaves before it is sure that no other activation has answered or
// committed since. The methods belong to the grain's own turns and hooks.
type State[T any] struct {
	Value T
	cell  *cell
}

// Read replaces Value by what is stored: the zero T if nothing is.
func (s *State[T]) Read(ctx context.Context) error {
	if _, err := s.cell.enter(ctx, "read"); err != nil {
		return err
	}
	return s.cell.read()
}

// Write stores Value, and returns nil when that will survive every crash. It fails with ErrETag when what is stored is
// not the version that was read, with raysys.ErrTooLarge above MaxState, and with raysys.ErrMoved when the grain is
// active elsewhere by now: then this activation ends, and its caller gets ErrMoved whatever the method returns. Other
// calls wait meanwhile, also where the kind is Reentrant. It does not end before the outcome is known, also when ctx does.
func (s *State[T]) Write(ctx context.Context) error {
	t, err := s.cell.enter(ctx, "write")
	if err != nil {
		return err
	}
	return s.cell.write(t)
}

// Clear removes what is stored, and sets Value to the zero T. It fails like Write.
func (s *State[T]) Clear(ctx context.Context) error {
	t, err := s.cell.enter(ctx, "clear")
	if err != nil {
		return err
	}
	if err := s.cell.save(t, nil); err != nil {
		return err
	}
	s.reset()
	return nil
}

// ETag names the version that was read or written last; it is empty before the first. It is for comparing, and for
// handing to clients.
func (s *State[T]) ETag() string {
	if s.cell == nil || s.cell.etag == (ETag{}) {
		return ""
	}
	return fmt.Sprintf("%x-%x", s.cell.etag.Epoch, s.cell.etag.Seq)
}

// Exists reports whether something was stored when it was read or written last.
func (s *State[T]) Exists() bool { return s.cell != nil && s.cell.exists }

func (s *State[T]) bind(c *cell)               { s.cell = c }
func (s *State[T]) plan() (*codec.Plan, error) { return codec.PlanOf(reflect.TypeFor[T]()) }

func (s *State[T]) reset() {
	var zero T
	s.Value = zero
}

func (s *State[T]) encode(dst []byte) (data []byte, refs []*core.Future, err error) {
	data, err = codec.Append(dst, &s.Value, &refs)
	return data, refs, err
}

func (s *State[T]) decode(data []byte, refs []*core.Future) error {
	return codec.Decode(data, &s.Value, refs)
}

// enter checks that ctx is that of a turn of the State's own grain.
func (c *cell) enter(ctx context.Context, verb string) (*core.Turn, error) {
	if c == nil {
		return nil, fmt.Errorf("%s state: %w: the State is no field of an active grain", verb, raysys.ErrNoRuntime)
	}
	t, _, err := core.TurnOf(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s state %s: %w", verb, c.name(), err)
	}
	if t.Attached() != any(c.act) || t.Kind() != core.TurnGrain || t.Base().Ended() {
		return nil, fmt.Errorf("%s state %s: %w: the context is not that of a turn of this grain", verb, c.name(), raysys.ErrNoRuntime)
	}
	if err := t.Cancelled(); err != nil {
		return nil, fmt.Errorf("%s state %s: %w", verb, c.name(), err)
	}
	return t.Base(), nil
}
