package taskengine

import (
	"fmt"
	"reflect"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/goroutines"
	"github.com/raysys/raysys/internal/wire"
)

// param is one parameter of a task while it is given by reference.
type param interface {
	core.RefValue
	Borrow(*core.Turn) error
	Return()
	// take puts the value into the argument; false when it is elsewhere.
	take(*core.Job) (here bool, err error)
	// taken reports whether take has.
	taken() bool
	// pin keeps the value readable until Return, also where the program has released it: another node holds it.
	pin()
	// makeObject makes an object of what the argument of c has.
	makeObject(c *core.Future, part int)
}

// refParam is the parameter of type T at some place of an argument.
type refParam[T any] struct {
	core.Ref[T]
	at  *T
	has bool
}

func (p *refParam[T]) taken() bool { return p.has }

func (p *refParam[T]) take(j *core.Job) (bool, error) {
	if p.has {
		return true, nil
	}
	v, here, err := p.Peek()
	if err == nil && here {
		*p.at, err = core.HandOver(j, "argument by reference", v)
		p.has = err == nil
	}
	return here, err
}

func (p *refParam[T]) pin() {
	if err := p.RefFuture().Pin(); err != nil {
		p.Ref = core.FailedRef[T](err)
		_ = p.RefFuture().Pin()
	}
}

func (p *refParam[T]) makeObject(c *core.Future, part int) { p.Ref = core.Hold(c, part, *p.at) }

// takeAll takes every parameter; false when one is elsewhere.
func takeAll(params []param, j *core.Job) (here bool, err error) {
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
func (r *record[A, R]) appendParams(dst []byte, refs wire.References) ([]byte, error) {
	t := r.Future.Turn()
	d, ok := t.Attached().(*deps)
	if !ok {
		d = &deps{}
		t.Attach(d)
	}
	params := d.params.Load()
	if params == nil {
		list := r.spec.params(&r.arg)
		for i, p := range list {
			p.makeObject(&r.Future, i)
			if err := p.Borrow(t); err != nil {
				return dst, err
			}
		}
		params = &list
		d.params.Store(params)
	}
	futures := make([]*core.Future, len(*params))
	for i, p := range *params {
		futures[i] = p.RefFuture()
	}
	return wire.AppendParams(dst, refs, futures...)
}

// readParams is the receiving side: the objects are fetched once the task is accepted.
func (t *inboundTask[A, R]) readParams(r *wire.Reader, up *core.Turn, refs wire.References) error {
	d := &deps{remakes: t.spec.remakes}
	params := t.spec.params(&t.arg)
	for _, p := range params {
		c, err := refs.ReadRef(r)
		if err != nil {
			return err
		}
		if err := p.SetRefFuture(c); err != nil {
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
func (t *inboundTask[A, R]) awaitParams() *deps {
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
		d.futures = append(d.futures, p.RefFuture())
	}
	t.hold(t.Future.Up(), d)
	d.task = t
	t.inner(d, t)
	return d
}

// forwardFrom settles the task with a result that stays where it was computed until it is needed.
func (r *record[A, R]) forwardFrom(rd *wire.Reader, refs wire.References) error {
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
	if d := r.deps(); (d == nil || d.byRef == nil) && wire.Exceeds(r.spec.arg, reflect.ValueOf(&r.arg).Elem(), wire.InlineLimit) {
		engineOf(r.Future.Up()).cfg.Pool.Go(goroutines.Func(settle))
		return nil
	}
	settle()
	return nil
}
