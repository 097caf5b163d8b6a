package protoactor

import (
	"fmt"
	"reflect"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/codec"
)

// Saved is a value that outlives its actor, the node and the process, as a grains.State does: it is stored with the grain that owns
// the actor, and of two activations of which one is on a node that has lost its lease only the other one can write. It belongs to
// the actor: use it in Receive.
type Saved[T any] struct {
	// Value is memory: change it and call Write. What is not written goes with the actor.
	Value T
	of    *activation
}

// State returns what the actor of a cluster kind has stored, the zero T if nothing; call it at cluster.ClusterInit or Started, and
// keep it. An actor has one. T is a protobuf message, or what a grains.State can hold. The error says why what is stored cannot be
// read as a T, or that the actor is of no cluster kind.
func State[T any](c actor.Context) (*Saved[T], error) {
	s := &Saved[T]{}
	var err error
	if s.of, err = load(c, &s.Value); err != nil {
		return nil, err
	}
	return s, nil
}

// Write stores Value, and returns nil when that will survive every crash. It fails as grains.State.Write does: with raysys.ErrMoved
// when the actor is active elsewhere by now, and with raysys.ErrFenced when its node has lost its lease.
func (s *Saved[T]) Write() error {
	data, err := encode(&s.Value)
	if err != nil {
		return err
	}
	return s.of.save(stored{data, true})
}

// Clear removes what is stored, and sets Value to the zero T.
func (s *Saved[T]) Clear() error {
	if err := s.of.save(stored{}); err != nil {
		return err
	}
	reflect.ValueOf(&s.Value).Elem().SetZero()
	return nil
}

// Exists reports whether something was stored when it was read or written last.
func (s *Saved[T]) Exists() bool { return s.of.stored.exists }

// stored is what is stored, or shall be.
type stored struct {
	data   []byte
	exists bool
}

// save asks the grain to store something.
type save struct {
	stored
	done chan error // capacity 1
}

// load reads what is stored into v, a pointer.
func load(c actor.Context, v any) (*activation, error) {
	p, _ := c.ActorSystem().ProcessRegistry.GetLocal(c.Self().Id)
	a, ok := p.(*activation)
	if !ok {
		return nil, fmt.Errorf("state of %s: it is not the actor of a cluster kind that protoactor.Kinds defined", c.Self())
	}
	if !a.stored.exists {
		return a, nil
	}
	err := decode(a.stored.data, v)
	if err != nil {
		err = fmt.Errorf("%w: state of %s: %w", grains.ErrUnreadable, c.Self(), err)
	}
	return a, err
}

func encode(v any) ([]byte, error) {
	if m, ok := v.(proto.Message); ok {
		return proto.Marshal(m)
	}
	at := reflect.ValueOf(v).Elem()
	plan, err := codec.PlanOf(at.Type())
	if err != nil {
		return nil, err
	}
	return plan.Append(nil, at, nil)
}

func decode(data []byte, v any) error {
	if m, ok := v.(proto.Message); ok {
		return proto.Unmarshal(data, m)
	}
	at := reflect.ValueOf(v).Elem()
	plan, err := codec.PlanOf(at.Type())
	if err != nil {
		return err
	}
	return plan.Decode(data, at, nil)
}

// save has the grain store something: in a turn of its own, or where it waits for the actor to stop.
func (a *activation) save(what stored) error {
	s := save{what, make(chan error, 1)}
	select {
	case a.saves <- s:
	default:
		return fmt.Errorf("state of %s: another Write is under way: the State belongs to the actor's Receive", a.pid)
	}
	called := make(chan error, 1)
	if !a.left.Load() {
		go func() {
			_, err := a.kind.flush.Call(a.node.ctx, a.grain, a.pid.Id).Get(a.node.ctx)
			called <- err
		}()
	}
	abandoned := a.abandoned
	for {
		var err error
		select {
		case err := <-s.done:
			if err == nil {
				a.stored = what
			}
			return err
		case err = <-called:
			if err == nil {
				err = raysys.ErrMoved // the turn was that of another activation
			}
			if a.left.Load() {
				continue // the grain takes it where it waits for the actor to stop
			}
		case <-abandoned:
			err, abandoned = raysys.ErrClosed, nil
		}
		select {
		case <-a.saves: // nobody has taken it, and nobody will
			return fmt.Errorf("state of %s was not stored: %w", a.pid, err)
		default:
		}
	}
}
