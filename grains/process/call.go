package process

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// Call calls a method of the child's object. A and R are structs: the fields of A are the keyword arguments, by their names in JSON,
// and the method returns a dict with those of R. Fields of type Tensor are arrays; the rest travels as JSON. A field of R that is not in
// the dict stays zero.
//
// It fails with *Error when the method raises an exception, with ErrValue where a text is no UTF-8 or a value does not fit, with
// raysys.ErrTooLarge where the argument or the result is beyond Config.MaxFrame, with *ExitError when the child has ended or is killed, and
// with the cause of ctx when that ends first: then the child is killed, since nobody knows how far it is. The next call starts another one.
func Call[A, R any](ctx context.Context, c *Child, method string, arg A) (result R, err error) {
	err = call(ctx, c, method, reflect.ValueOf(&arg).Elem(), reflect.ValueOf(&result).Elem())
	return result, err
}

func call(ctx context.Context, c *Child, method string, arg, result reflect.Value) error {
	from, err := planOf(arg.Type())
	if err != nil {
		return err
	}
	to, err := planOf(result.Type())
	if err != nil {
		return err
	}
	m := message{Method: method}
	if err := from.encode(arg, &m); err != nil {
		return fmt.Errorf("%s: %s: %w", nameOf(ctx), method, err)
	}
	reply, err := c.call(ctx, &m)
	if err == nil {
		if err = to.decode(reply, result); err != nil {
			err = fmt.Errorf("%s: the result of %s: %w", nameOf(ctx), method, err)
		}
	}
	return err
}

// plan is what a type has of tensors, by their names.
type plan struct {
	names  []string
	fields []int
	err    error
}

var (
	plans      sync.Map // reflect.Type -> *plan
	tensorType = reflect.TypeFor[Tensor]()
)

// planOf checks a type of arguments or of results.
func planOf(t reflect.Type) (*plan, error) {
	if p, ok := plans.Load(t); ok {
		return p.(*plan), p.(*plan).err
	}
	p := &plan{}
	if t.Kind() != reflect.Struct || t == tensorType {
		p.err = fmt.Errorf("%w: %s is no struct: its fields are the keyword arguments, and the keys of a result", ErrValue, t)
	} else {
		for _, f := range reflect.VisibleFields(t) {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); f.Type == tensorType && f.IsExported() && len(f.Index) == 1 && name != "-" {
				p.names, p.fields = append(p.names, cmp.Or(name, f.Name)), append(p.fields, f.Index[0])
			}
		}
	}
	plans.Store(t, p)
	return p, p.err
}

// encode leaves v without its tensors.
func (p *plan) encode(v reflect.Value, m *message) (err error) {
	for i, name := range p.names {
		t := v.Field(p.fields[i]).Interface().(Tensor)
		if t.IsZero() {
			continue
		}
		if err := t.valid(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		m.Tensors = append(m.Tensors, described{name, t.DType, t.Shape, t.Data})
		v.Field(p.fields[i]).SetZero()
	}
	if m.Values, err = json.Marshal(v.Interface()); err != nil {
		return fmt.Errorf("%w: %w", ErrValue, err)
	}
	return nil
}

func (p *plan) decode(m message, v reflect.Value) error {
	if len(m.Values) > 0 {
		if near := changed(m.Values, false); near != "" {
			return fmt.Errorf("%w: text that is no UTF-8, near %s", ErrValue, near)
		}
		if err := json.Unmarshal(m.Values, v.Addr().Interface()); err != nil {
			return fmt.Errorf("%w: %w", ErrValue, err)
		}
	}
	for _, d := range m.Tensors {
		i := slices.Index(p.names, d.Name)
		if i < 0 {
			return fmt.Errorf("%w: %q is an array, %v, and %s has no Tensor of that name", ErrValue, d.Name, d.tensor(), v.Type())
		}
		v.Field(p.fields[i]).Set(reflect.ValueOf(d.tensor()))
	}
	return nil
}
