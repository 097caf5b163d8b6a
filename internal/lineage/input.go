package lineage

import (
	"encoding/binary"
	"fmt"
	"reflect"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/taskengine"
	"github.com/raysys/raysys/internal/wire"
)

// The inputs and the outcomes of tasks, as records have them.

// recordVersion is the first byte of what this package puts into the record of a task.
const recordVersion = 1

// Forms of an input, and of an outcome.
const (
	inputGone  byte = iota // why
	inputTask              // the run and the id of a recorded task
	inputOther             // id and owner of a value that is not made again: of a copy, or recorded before inputHeld was known
	inputValue             // id, the value, and what it refers to
	inputError             // id and the failure
	inputNamed             // id of an object, and the name that it has in the cluster
	inputHeld              // id, owner, and the owner's number of a value that is not made again
)

// appendInput appends what another node needs to find the input of a recorded task.
func appendInput(dst []byte, in taskengine.Input, self core.NodeKey) []byte {
	if in.Recipe != nil && in.Recipe.Key() != 0 && (in.Recipe.Run() != 0 || in.Future == nil) { // another node may be its submitter
		return wire.AppendID(binary.AppendUvarint(append(dst, inputTask), in.Recipe.Key()), in.Recipe.ID())
	}
	if in.Future == nil {
		return wire.AppendBytes(append(dst, inputGone), in.Name)
	}
	return appendFuture(dst, in.Future, self)
}

func appendFuture(dst []byte, c *core.Future, self core.NodeKey) []byte {
	if !c.Settled() || c.Object() || c.Absent() {
		run, id := refs.RecordedAs(c)
		if run != 0 {
			return wire.AppendID(binary.AppendUvarint(append(dst, inputTask), run), id)
		}
		owner := self
		if s := refs.RemoteOf(core.Behind(c)); s != nil {
			if owner = s.Owner; s.Number != 0 {
				return wire.AppendUvarint(wire.AppendNode(wire.AppendID(append(dst, inputHeld), id), owner), s.Number)
			}
		}
		return wire.AppendNode(wire.AppendID(append(dst, inputOther), id), owner)
	}
	out, err := appendOutcome(dst, c, self)
	if err != nil {
		return wire.AppendBytes(append(dst, inputGone), err.Error())
	}
	return out
}

func appendFailure(dst []byte, id raysys.TaskID, err error) []byte {
	return wire.AppendError(wire.AppendID(append(dst, inputError), id), err)
}

// appendOutcome appends the outcome of a settled future whose value is here.
func appendOutcome(dst []byte, c *core.Future, self core.NodeKey) ([]byte, error) {
	if err := c.Pin(); err != nil {
		return dst, err
	}
	defer c.Unpin()
	v, err := c.Outcome()
	if err != nil {
		return appendFailure(dst, c.ID(), err), nil
	}
	value := reflect.ValueOf(v).Elem()
	plan, err := codec.PlanOf(value.Type())
	if err != nil {
		return dst, err
	}
	var inner []*core.Future
	body, err := plan.Append(nil, value, &inner)
	if err != nil {
		return dst, err
	}
	dst = wire.AppendBytes(wire.AppendID(append(dst, inputValue), c.ID()), body)
	dst = binary.AppendUvarint(dst, uint64(len(inner)))
	for _, f := range inner {
		dst = appendFuture(dst, f, self)
	}
	return dst, nil
}

// recorded is an input, or an outcome, as it was recorded.
type recorded struct {
	form   byte
	name   string // of what is gone, or of an object
	run    uint64
	id     raysys.TaskID
	owner  core.NodeKey
	number uint64 // of the owner's future there
	value  []byte
	inner  []*core.Future
	err    error
}

// future returns a future of the input.
func (in *recorded) future(l *Lineage) *core.Future {
	return &core.NewUntyped(l.cfg.Job, in.source(l)).Future
}

// source returns what brings the input.
func (in *recorded) source(l *Lineage) (src core.Source) {
	switch in.form {
	case inputTask:
		s := &successor{lineage: l, run: in.run, id: in.id}
		l.Succeed(in.run, in.id, nil, func(src core.Source, err error) { // now: its record goes with those who can ask for it
			if err == nil {
				s.hold(src)
			}
		})
		src = s
	case inputOther:
		src = l.cfg.Refs.Uncounted(in.owner, in.id)
	case inputHeld: // now, as above: the owner frees it soon after the death of the submitter
		src = l.cfg.Refs.Borrow(in.owner, in.number, in.id)
	case inputGone:
		src = &failed{id: in.id, err: fmt.Errorf("%w: %s, which it needs, was released, and is not made again", raysys.ErrObjectLost, in.name)}
	case inputError:
		src = &failed{id: in.id, err: in.err}
	case inputValue:
		src = &stored{recorded: in}
	case inputNamed:
		src = &namedObject{recorded: in, lineage: l, what: "result of a detached task"}
	}
	return src
}

var errVersion = fmt.Errorf("%w: a newer node has recorded it: upgrade this node", registry.ErrUnreadable)
