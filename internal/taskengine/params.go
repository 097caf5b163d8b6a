package taskengine

import (
	"fmt"
	"unsafe"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/goroutines"
	"github.com/raysys/raysys/internal/wire"
)

// param is one parameter of a task while it is given by reference: the value of that type which is to be at some place of an
// argument.
type param struct {
	of     *core.ValueType
	at     unsafe.Pointer
	future *core.Future
	has    bool // the value is there
}

// field is where the argument of a function has a parameter.
type field struct {
	of *core.ValueType
	at uintptr
}

// params are the parameters of the argument at arg, as references that refer to nothing yet.
func (d *definition) params(arg unsafe.Pointer) []*param {
	list := make([]*param, len(d.fields))
	for i, f := range d.fields {
		list[i] = &param{of: f.of, at: unsafe.Add(arg, f.at)}
	}
	return list
}

// set has p refer to c. It fails when c holds another type.
func (p *param) set(c *core.Future) (err error) {
	c, err = c.As(p.of)
	if err == nil {
		p.future = c
	}
	return err
}

// take puts the value into the argument; false when it is elsewhere.
func (p *param) take(j *core.Job) (here bool, err error) {
	if p.has {
		return true, nil
	}
	here, err = p.future.PeekInto(p.of, p.at)
	if err == nil && here {
		err = core.HandOver(j, "argument by reference", p.of, p.at)
		p.has = err == nil
	}
	return here, err
}

// pin keeps the value readable until Return, also where the program has released it: another node holds it.
func (p *param) pin() {
	if err := p.future.Pin(); err != nil {
		p.future = core.FailedOf(p.of, err)
		_ = p.future.Pin()
	}
}

// makeObject makes an object of what the argument of c has.
func (p *param) makeObject(c *core.Future, part int) {
	p.future = core.Hold(c, part, p.of, p.at)
}

// takeAll takes every parameter; false when one is elsewhere.
func takeAll(params []*param, j *core.Job) (here bool, err error) {
	here = true
	for _, p := range params {
		h, bad := p.take(j)
		here = here && h
		if err == nil {
			err = bad
		}
	}
	return here, err
}

// appendParams sends the argument as objects of this node, which the peer fetches: it is too large for a frame. They
// are kept while the task is away, for another attempt.
func (r *record) appendParams(dst []byte, refs wire.References) ([]byte, error) {
	t := r.Future.Turn()
	d, ok := t.Attached().(*deps)
	if !ok {
		d = &deps{}
		t.Attach(d)
	}
	params := d.params.Load()
	if params == nil {
		list := r.spec.params(r.argAt())
		for i, p := range list {
			p.makeObject(&r.Future, i)
			if err := p.future.Borrow(t); err != nil {
				return dst, err
			}
		}
		params = &list
		d.params.Store(params)
	}
	futures := make([]*core.Future, len(*params))
	for i, p := range *params {
		futures[i] = p.future
	}
	return wire.AppendParams(dst, refs, futures...)
}

// readParams is the receiving side: the objects are fetched once the task is accepted.
func (t *inboundTask) readParams(r *wire.Reader, up *core.Turn, refs wire.References) error {
	d := &deps{remakes: t.spec.remakes}
	params := t.spec.params(t.argAt())
	for _, p := range params {
		c, err := refs.ReadRef(r)
		if err != nil {
			return err
		}
		if err := p.set(c); err != nil {
			return fmt.Errorf("parameter of %s: %w", t.Name(), err)
		}
	}
	if up == nil { // its turn is not known, and it goes back
		return nil
	}
	d.params.Store(&params)
	own := t.Future.OwnTurn()
	if own == nil {
		own = core.NewTurn(core.TurnSpec{Kind: core.TurnTask, Name: t.Name(), ID: t.Future.ID(), Up: up, Attempt: 1})
	}
	own.Attach(d)
	t.Future.SetOwn(own)
	return nil
}

// awaitParams returns what the inbound task waits for when its argument came as objects.
func (t *inboundTask) awaitParams() *deps {
	own := t.Future.OwnTurn()
	if own == nil {
		return nil
	}
	d, ok := own.Attached().(*deps)
	if !ok {
		return nil
	}
	for _, p := range *d.params.Load() {
		p.pin()
		d.futures = append(d.futures, p.future)
	}
	t.hold(t.Future.Up(), d)
	d.task = t
	t.inner(d, t)
	return d
}

// forwardFrom settles the task with a result that stays where it was computed until it is needed.
func (r *record) forwardFrom(rd *wire.Reader, refs wire.References) error {
	src, size, err := wire.ReadLarge(rd, refs)
	if err != nil {
		return err
	}
	if r.Expires() != 0 && r.ended() {
		return nil
	}
	settle := func() {
		if r.keepsRecipes() {
			r.keepRecipe()
		}
		r.drop()
		r.Future.ForwardSized(src, size)
		r.endLate()
	}
	// The goroutine that reads what the peer sends does not encode a large argument for the recipe.
	if d := r.deps(); (d == nil || d.byRef == nil) && wire.Exceeds(r.spec.arg, r.argAt(), wire.InlineLimit) {
		engineOf(r.Future.Up()).cfg.Pool.Go(goroutines.Func(settle))
		return nil
	}
	settle()
	return nil
}
