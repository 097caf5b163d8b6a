package grainengine

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"unsafe"

	"github.com/raysys/raysys"
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

// stateDef is one State field of a kind's struct.
type stateDef struct {
	name string
	path []int // of the field, through embedded structs
}

// stateField is a State to code that does not know its type: pointers to it implement this by the StateLink that it
// embeds.
type stateField interface {
	bind(c *cell, value any)
	plan() (*codec.Plan, error)
}

var (
	stateType  = reflect.TypeFor[stateField]()
	enginePath = reflect.TypeFor[Engine]().PkgPath()
)

func isState(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && reflect.PointerTo(t).Implements(stateType)
}

// statesOf finds the State fields of G, and what is wrong with them.
func statesOf(g reflect.Type) ([]stateDef, error) {
	var defs []stateDef
	var bad error
	if g.Kind() == reflect.Struct {
		bad = findStates(g, nil, &defs)
	}
	names := map[string]bool{}
	for _, d := range defs {
		if names[d.name] {
			bad = errors.Join(bad, fmt.Errorf("two States have the name %q: tag one of them `raysys:\"another\"`", d.name))
		}
		names[d.name] = true
	}
	return defs, bad
}

func findStates(t reflect.Type, path []int, defs *[]stateDef) (bad error) {
	for i := range t.NumField() {
		f := t.Field(i)
		at := append(append([]int(nil), path...), i)
		switch {
		case f.Anonymous && isState(f.Type) && !ownState(f.Type):
			bad = errors.Join(bad, findStates(f.Type, at, defs)) // a struct that embeds a State
		case isState(f.Type):
			name := f.Name
			if tag, ok := f.Tag.Lookup("raysys"); ok {
				name = tag
			}
			bad = errors.Join(bad, checkState(f, name))
			*defs = append(*defs, stateDef{name, at})
		case f.Anonymous && f.Type.Kind() == reflect.Struct:
			bad = errors.Join(bad, findStates(f.Type, at, defs))
		case hidesState(f.Type, 0):
			bad = errors.Join(bad, fmt.Errorf("field %s: a State must be a field of the grain's struct itself, not behind a pointer or inside another value", f.Name))
		}
	}
	return bad
}

// ownState reports whether t is State[T] itself and not a struct that embeds one.
func ownState(t reflect.Type) bool {
	return t.NumField() == 2 && t.Field(1).Anonymous && t.Field(1).Type.PkgPath() == enginePath
}

func checkState(f reflect.StructField, name string) error {
	if name == "" || name == "-" {
		return fmt.Errorf("field %s: a State needs a name: tag it `raysys:\"name\"`, or leave the tag out", f.Name)
	}
	p, err := reflect.New(f.Type).Interface().(stateField).plan()
	switch {
	case err != nil:
		return fmt.Errorf("state %q: %w", name, err)
	case p.Type().Size() > MaxState && p.Fixed():
		return fmt.Errorf("state %q: %w: every %s has %d bytes, and a State has at most %d", name, raysys.ErrTooLarge, p.Type(), p.Type().Size(), MaxState)
	}
	return nil
}

// hidesState reports whether a State is where no cell would reach it.
func hidesState(t reflect.Type, depth int) bool {
	if depth > 4 {
		return false
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return isState(t.Elem()) || t.Kind() != reflect.Pointer && hidesState(t.Elem(), depth+1)
	case reflect.Struct:
		for i := range t.NumField() {
			if ft := t.Field(i).Type; isState(ft) || hidesState(ft, depth+1) {
				return true
			}
		}
	}
	return false
}

// bindIn joins the State that d describes in *g to c, also where the field is not exported.
func (d stateDef) bindIn(g any, c *cell) {
	v := reflect.ValueOf(g).Elem().FieldByIndex(d.path)
	v = reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr()))
	v.Interface().(stateField).bind(c, v.Elem().Field(0).Addr().Interface())
}

// StoredValue decodes a stored State of a kind of the table. v is a pointer to the value; it holds no references. known is false where the
// table has no such State.
func StoredValue(t *raysys.Table, kindName, state string, record []byte) (v any, known bool, err error) {
	entry := t.Lookup("grain", kindName)
	if entry == nil {
		return nil, false, nil
	}
	k := entry.Impl.(*kind)
	i := slices.IndexFunc(k.states, func(d stateDef) bool { return d.name == state })
	if i < 0 {
		return nil, false, nil
	}
	g, c := k.make(), new(cell)
	k.states[i].bindIn(g, c)
	field := reflect.ValueOf(g).Elem().FieldByIndex(k.states[i].path)
	v = reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem().Field(0).Addr().Interface()
	return v, true, staterecord.Open(record, c.value, nil)
}

// StatesOf names the States of a kind of the table.
func StatesOf(t *raysys.Table, kindName string) (names []string) {
	if entry := t.Lookup("grain", kindName); entry != nil {
		for _, d := range entry.Impl.(*kind).states {
			names = append(names, d.name)
		}
	}
	return names
}
