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
	"github.com/raysys/raysys/internal/entries"
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

// stateDef is one State field of a kind's struct, or one Map.
type stateDef struct {
	name string
	path []int // of the field, through embedded structs
}

// storedFields are the fields of a kind's struct that are stored.
type storedFields struct{ states, maps []stateDef }

// stores reports whether something is stored of the kind's grains.
func (f *storedFields) stores() bool { return len(f.states)+len(f.maps) > 0 }

// stateField is a State to code that does not know its type: pointers to it implement this by the StateLink that it
// embeds.
type stateField interface {
	bind(c *cell, value any)
	plan() (*codec.Plan, error)
}

var (
	stateType  = reflect.TypeFor[stateField]()
	mapType    = reflect.TypeFor[entries.Field]()
	enginePath = reflect.TypeFor[Engine]().PkgPath()
)

func isState(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && reflect.PointerTo(t).Implements(stateType)
}

func isMap(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && reflect.PointerTo(t).Implements(mapType)
}

// storedIn finds the fields of G that are stored, and what is wrong with them.
func storedIn(g reflect.Type) (fields storedFields, bad error) {
	if g.Kind() == reflect.Struct {
		bad = findStored(g, nil, &fields)
	}
	names := map[string]bool{}
	for _, d := range slices.Concat(fields.states, fields.maps) {
		if names[d.name] {
			err := fmt.Errorf("two States or Maps have the name %q: tag one of them `raysys:\"another\"`", d.name)
			bad = errors.Join(bad, err)
		}
		names[d.name] = true
	}
	return fields, bad
}

func findStored(t reflect.Type, path []int, fields *storedFields) (bad error) {
	for i := range t.NumField() {
		f := t.Field(i)
		at := append(append([]int(nil), path...), i)
		name := f.Name
		if tag, ok := f.Tag.Lookup("raysys"); ok {
			name = tag
		}
		switch {
		case f.Anonymous && isState(f.Type) && !ownState(f.Type), f.Anonymous && isMap(f.Type) && f.Type.NumField() > 1:
			bad = errors.Join(bad, findStored(f.Type, at, fields)) // a struct that embeds a State or a Map
		case isState(f.Type):
			bad = errors.Join(bad, checkState(f, name))
			fields.states = append(fields.states, stateDef{name, at})
		case isMap(f.Type):
			bad = errors.Join(bad, checkMap(f, name))
			fields.maps = append(fields.maps, stateDef{name, at})
		case f.Anonymous && f.Type.Kind() == reflect.Struct:
			bad = errors.Join(bad, findStored(f.Type, at, fields))
		case hidesState(f.Type, 0):
			err := fmt.Errorf("field %s: a State or a Map must be a field of the grain's struct itself, "+
				"not behind a pointer or inside another value", f.Name)
			bad = errors.Join(bad, err)
		}
	}
	return bad
}

// ownState reports whether t is State[T] itself and not a struct that embeds one.
func ownState(t reflect.Type) bool {
	return t.NumField() == 2 && t.Field(1).Anonymous && t.Field(1).Type.PkgPath() == enginePath
}

func checkMap(f reflect.StructField, name string) error {
	if name == "" || name == "-" {
		return fmt.Errorf("field %s: a Map needs a name: tag it `raysys:\"name\"`, or leave the tag out", f.Name)
	}
	if err := entries.Check(reflect.New(f.Type).Interface().(entries.Field)); err != nil {
		return fmt.Errorf("map %q: %w", name, err)
	}
	return nil
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

// hidesState reports whether a State or a Map is where the engine would not find it.
func hidesState(t reflect.Type, depth int) bool {
	if depth > 4 {
		return false
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return isState(t.Elem()) || isMap(t.Elem()) || t.Kind() != reflect.Pointer && hidesState(t.Elem(), depth+1)
	case reflect.Struct:
		for i := range t.NumField() {
			if ft := t.Field(i).Type; isState(ft) || isMap(ft) || hidesState(ft, depth+1) {
				return true
			}
		}
	}
	return false
}

// bindIn joins the State that d describes in *g to c, also where the field is not exported.
func (d stateDef) bindIn(g any, c *cell) {
	v := d.fieldIn(g)
	v.Interface().(stateField).bind(c, v.Elem().Field(0).Addr().Interface())
}

// fieldIn points at the field in *g, also where that is not exported.
func (d stateDef) fieldIn(g any) reflect.Value {
	v := reflect.ValueOf(g).Elem().FieldByIndex(d.path)
	return reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr()))
}

// bindMaps makes the entries of a new G and joins its Maps to them: nil for a kind without Maps. mayChange is asked
// before each change.
func bindMaps(k *kind, g any, mayChange func() error) (b *entries.Book, err error) {
	for _, d := range k.maps {
		if b == nil {
			b = entries.New(mayChange)
		}
		if err := b.Add(d.name, d.fieldIn(g).Interface().(entries.Field)); err != nil {
			return nil, fmt.Errorf("map %q: %w", d.name, err)
		}
	}
	return b, nil
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
	v = k.states[i].fieldIn(g).Elem().Field(0).Addr().Interface()
	return v, true, staterecord.Open(record, c.value, nil)
}

// StoredOf names the States and Maps of a kind of the table.
func StoredOf(t *raysys.Table, kindName string) (states, maps []string) {
	if entry := t.Lookup("grain", kindName); entry != nil {
		k := entry.Impl.(*kind)
		for _, d := range k.states {
			states = append(states, d.name)
		}
		for _, d := range k.maps {
			maps = append(maps, d.name)
		}
	}
	return states, maps
}

// EachStored reads what is stored of the grains of a durable kind whose keys begin with prefix, shard by shard, and
// yields each in a new G, which belongs to no activation. A grain that cannot be read comes with its key and the error.
// What ends the list comes without a key.
func EachStored(
	ctx context.Context, h Kind, prefix string, yield func(key string, g any, turn uint64, err error) bool,
) {
	fails := func(err error) { yield("", nil, 0, fmt.Errorf("read what is stored of kind %q: %w", h.Name(), err)) }
	e := Of(ctx)
	switch {
	case e == nil || e.cfg.States == nil:
		fails(raysys.ErrNoRuntime)
		return
	case h.k == nil || !h.k.Durable:
		fails(fmt.Errorf("%w: it is no Durable kind", raysys.ErrBadOption))
		return
	}
	q := graindir.Query{Kind: h.k.name, Prefix: prefix}
	for q.Shard = range e.cfg.States.Shards() {
		if over, err := eachInShard(ctx, h.k, e, q, yield); err != nil {
			fails(err)
			return
		} else if over {
			return
		}
	}
}

// NamedValue is the value of a State, or a Map, by its name: something that encoding/json takes.
type NamedValue struct {
	Name  string
	Value any
}

// StoredValues reads what is stored of the grains of a kind that lie in a shard, as q says, and yields the values of
// each. known is false where the table has no such kind.
func StoredValues(
	ctx context.Context, e *Engine, q graindir.Query,
	yield func(key string, list []NamedValue, turn uint64, err error) bool,
) (known bool, err error) {
	entry := e.cfg.Table.Lookup("grain", q.Kind)
	if entry == nil {
		return false, nil
	}
	k := entry.Impl.(*kind)
	_, err = eachInShard(ctx, k, e, q, func(key string, g any, turn uint64, err error) bool {
		var list []NamedValue
		if err == nil {
			for _, d := range k.states {
				list = append(list, NamedValue{d.name, d.fieldIn(g).Elem().Field(0).Addr().Interface()})
			}
			for _, d := range k.maps {
				list = append(list, NamedValue{d.name, entries.AsJSON(d.fieldIn(g).Interface().(entries.Field))})
			}
		}
		return yield(key, list, turn, err)
	})
	return true, err
}

// eachInShard is EachStored for one shard. over says that yield wants no more.
func eachInShard(
	ctx context.Context, k *kind, e *Engine, q graindir.Query,
	yield func(key string, g any, turn uint64, err error) bool,
) (over bool, err error) {
	for _, d := range k.states {
		q.States = append(q.States, d.name)
	}
	var of []graindir.Stored // all records of one grain
	shown := func() (over bool, err error) {
		if len(of) == 0 {
			return false, nil
		}
		g, err := readStored(ctx, k, e, of)
		if ctx.Err() != nil {
			return true, context.Cause(ctx)
		}
		if err != nil {
			err = fmt.Errorf("read what is stored of %s: %w", Shown(graindir.ID{Kind: k.name, Key: of[0].Key}), err)
		}
		return !yield(of[0].Key, g, of[0].Counter.Turn, err), nil
	}
	for more := true; more; {
		p, err := askPage(ctx, e.cfg.States, q)
		if err != nil {
			return true, err
		}
		for _, s := range p.Records {
			if len(of) > 0 && of[0].Key != s.Key {
				if over, err := shown(); over || err != nil {
					return over, err
				}
				of = nil
			}
			of = append(of, s)
		}
		if more = p.More; more {
			q.From = p.Records[len(p.Records)-1]
		}
	}
	return shown()
}

// askPage asks for a page, and does not outlive ctx.
func askPage(ctx context.Context, s graindir.States, q graindir.Query) (p graindir.Page, err error) {
	answered := make(chan struct{})
	var page graindir.Page
	var failed error
	s.Page(q, func(got graindir.Page, err error) {
		page, failed = got, err
		close(answered)
	})
	select {
	case <-answered:
		return page, failed
	case <-ctx.Done():
		return p, context.Cause(ctx)
	}
}

// readStored makes a G of the records of a grain, of which the first is its counter.
func readStored(ctx context.Context, k *kind, e *Engine, of []graindir.Stored) (g any, err error) {
	g = k.make()
	book, err := bindMaps(k, g, func() error {
		return errors.New("it was read from the store, and belongs to no active grain")
	})
	if err != nil {
		return nil, err
	}
	if of[0].Bad != nil {
		return nil, of[0].Bad
	}
	var sides []graindir.Side
	for _, s := range of[1:] {
		i := slices.IndexFunc(k.states, func(d stateDef) bool { return d.name == s.Name })
		switch {
		case s.Family != graindir.StoredState:
			sides = append(sides, s.Side)
			continue
		case i < 0:
			continue
		}
		if err := k.states[i].readInto(ctx, g, e, graindir.ID{Kind: k.name, Key: s.Key}, s.Data); err != nil {
			return nil, fmt.Errorf("state %q: %w: %w", s.Name, graindir.ErrUnreadable, err)
		}
	}
	if book != nil {
		err = book.Restore(sides)
	}
	if err != nil {
		return nil, err
	}
	return g, nil
}

// fetchFor fetches a large State, and does not outlive ctx.
func fetchFor(
	ctx context.Context, r graindir.Retainer, id graindir.ID, name string, written []byte,
) (record []byte, err error) {
	type outcome struct {
		record []byte
		err    error
	}
	got := make(chan outcome, 1)
	r.FetchState(id, name, written, func(record []byte, err error) { got <- outcome{record, err} })
	select {
	case o := <-got:
		return o.record, o.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// readInto sets the Value of a State in g, which it does not join to a cell.
func (d stateDef) readInto(ctx context.Context, g any, e *Engine, id graindir.ID, record []byte) error {
	v := d.fieldIn(g)
	plan, err := v.Interface().(stateField).plan()
	if err != nil {
		return err
	}
	if written, large := staterecord.Large(record); large {
		if e.cfg.Retainer == nil {
			return raysys.ErrNoStore
		}
		if record, err = fetchFor(ctx, e.cfg.Retainer, id, d.name, written); err != nil {
			return err
		}
	}
	if plan.HasRefs() {
		return errors.New("it may hold references, which the grain's activation alone may have")
	}
	at := v.Elem().Field(0).Addr().UnsafePointer()
	return staterecord.Open(record, staterecord.Typed{Type: plan, At: at}, nil)
}
