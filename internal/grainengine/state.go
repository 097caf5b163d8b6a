package grainengine

import (
	"context"
	"fmt"
	"reflect"

	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/staterecord"
)

// MaxState is the most that one State holds, encoded: grains.MaxState, as the compiler sees to in package grains.
const MaxState = 64 << 20

// StateLink ties a grains.State to the engine. A State is a struct of two fields, its Value and an embedded StateLink:
// by the promoted methods the engine finds and fills it, out of sight of go doc.
type StateLink[T any] struct{ cell *cell }

// Read is grains.State.Read.
func (l *StateLink[T]) Read(ctx context.Context) error {
	if _, err := l.cell.checkTurn(ctx, "read"); err != nil {
		return err
	}
	if l.cell.durable() {
		return l.cell.rollBack()
	}
	return l.cell.read()
}

// Write is grains.State.Write.
func (l *StateLink[T]) Write(ctx context.Context) error {
	t, err := l.cell.checkTurn(ctx, "write")
	if err != nil {
		return err
	}
	if l.cell.durable() {
		_, err = l.cell.sealed()
		return err
	}
	return l.cell.write(t)
}

// Clear is grains.State.Clear.
func (l *StateLink[T]) Clear(ctx context.Context) error {
	t, err := l.cell.checkTurn(ctx, "clear")
	if err != nil {
		return err
	}
	if l.cell.durable() {
		l.cell.value.reset()
		l.cell.zero, err = l.cell.sealed()
		return err
	}
	if err := l.cell.save(t, nil); err != nil {
		return err
	}
	l.cell.value.reset()
	return nil
}

// ETag is grains.State.ETag.
func (l *StateLink[T]) ETag() string {
	if l.cell == nil || l.cell.durable() || l.cell.etag == (graindir.ETag{}) {
		return ""
	}
	return fmt.Sprintf("%x-%x", l.cell.etag.Epoch, l.cell.etag.Seq)
}

// Exists is grains.State.Exists.
func (l *StateLink[T]) Exists() bool { return l.cell != nil && l.cell.exists }

// bind joins the State to c. value points at its Value.
func (l *StateLink[T]) bind(c *cell, value any) {
	l.cell, c.value = c, stateValue[T]{value.(*T)}
}

func (l *StateLink[T]) plan() (*codec.Plan, error) { return codec.PlanOf(reflect.TypeFor[T]()) }

// anyValue is the Value of a State to code that does not know its type.
type anyValue interface {
	staterecord.Value
	encode(dst []byte) (data []byte, refs []*core.Future, err error)
	reset()
}

type stateValue[T any] struct{ at *T }

func (v stateValue[T]) Plan() (*codec.Plan, error) { return codec.PlanOf(reflect.TypeFor[T]()) }

func (v stateValue[T]) encode(dst []byte) (data []byte, refs []*core.Future, err error) {
	data, err = codec.Append(dst, v.at, &refs)
	return data, refs, err
}

func (v stateValue[T]) Decode(data []byte, refs []*core.Future) error {
	return codec.Decode(data, v.at, refs)
}

func (v stateValue[T]) reset() {
	var zero T
	*v.at = zero
}
