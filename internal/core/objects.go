package core

import (
	"context"
	"errors"
	"fmt"
	"reflect"
)

// ObjectSize is the size of an encoding above which a value is an object: the node's object store keeps it, and
// readers fetch it from there. A smaller one travels along.
const ObjectSize = 64 << 10

// Objects is a node's store of large values, as this package sees it.
type Objects interface {
	// Keep is called with a value that may be large before its future, c, becomes ready, and again when the value is
	// back in c. v is a *T that must not be kept; Future.Outcome gives the value later, and Future.Evict forgets it.
	// It reports whether it counts the value. For a value made here, where SourceOf(c) is nil, it may wait for room;
	// an error, which matches ErrStoreFull, then becomes the future's.
	Keep(c *Future, v any) (kept bool, err error)
	// Drop is called when a value that Keep counted is released. It may come twice, also before Keep returns.
	Drop(c *Future)
}

// Names keeps objects under names and on several nodes. An Objects that is one serves Named, Replicas, Lookup and
// Forget.
type Names interface {
	// Publish does what the program asked of Put for c, which is ready.
	Publish(ctx context.Context, c *Future, spec PutSpec) error
	// Lookup returns a future of the object, which may be untyped as yet (see Untyped). The error matches ErrNotFound
	// when the name is free.
	Lookup(ctx context.Context, name string) (*Future, error)
	// Forget frees the name, and with it what it holds.
	Forget(ctx context.Context, name string) error
}

// PutSpec is what the options of a Put say.
type PutSpec struct {
	Name     string // empty for none
	Replicas int    // copies, the first included
	OnDisk   bool   // each of them in a file that outlives its node
	Others   bool   // Replicas counts other nodes alone: this one is about to leave, and needs no file
	Recorded bool   // a record of the store names the object by its id: it is needed when this node has left
	Err      error  // the last option that cannot be meant
}

// PutOption is raysys.PutOption: it asks more of Put than that it makes an object.
type PutOption func(*PutSpec)

func namesOf(t *Turn, verb string) (Names, error) {
	n, ok := t.job.Objects.(Names)
	if !ok {
		return nil, fmt.Errorf("%s: %w: node %s has nothing that keeps names and replicas", verb, ErrNoStore, t.job.Node)
	}
	return n, nil
}

// TaskNames knows detached tasks by their names.
type TaskNames interface {
	// LookupTask returns a future of the task. The error matches ErrNotFound when no task has the name.
	LookupTask(ctx context.Context, name string) (*Future, error)
	// ForgetTask frees the name, and cancels its task. The error matches ErrNotFound when no task has it.
	ForgetTask(ctx context.Context, name string) error
	// EndTask returns what cancels the task with a name that c, which has not settled, refers to, wherever it runs; nil where c is of none,
	// or is itself all that there is to cancel. It waits until the task will not run again, or for as long as a program may.
	EndTask(c *Future) func()
	// ListTasks lists the tasks with names of which this node is the submitter, and which have not settled, by name.
	ListTasks() []NamedTask
}

// NamedTask is inspect.NamedTask.
type NamedTask struct {
	Name     string
	Function string
	Attempt  int
	State    string // "waits" or "runs"
}

// String shows it, for logs.
func (t NamedTask) String() string {
	return fmt.Sprintf("named task %q (%s, attempt %d, %s)", t.Name, t.Function, t.Attempt, t.State)
}

// NamedTaskOf describes the task of c, which this node has submitted.
func NamedTaskOf(c *Future, name, function string) NamedTask {
	t := NamedTask{Name: name, Function: function, Attempt: 1, State: "runs"}
	if own := c.OwnTurn(); own != nil {
		t.Attempt = own.Attempt()
	}
	if c.Pending() {
		t.State = "waits"
	}
	return t
}

// ObjectHasName reports whether an object has the name. After an error it is not known.
func ObjectHasName(ctx context.Context, t *Turn, name string) (bool, error) {
	n, err := namesOf(t, "look up "+name)
	if err != nil {
		return false, nil
	}
	defer blocked(t)()
	_, err = n.Lookup(ctx, name)
	switch {
	case errors.Is(err, ErrNotFound):
		return false, nil
	case err == nil, errors.Is(err, ErrObjectLost):
		return true, nil
	}
	return false, err
}

// publish does what opts ask for. The CPU of the turn is given back meanwhile.
func publish[O ~func(*PutSpec)](ctx context.Context, t *Turn, c *Future, opts []O) error {
	spec := PutSpec{Replicas: 1}
	for _, o := range opts {
		o(&spec)
		if spec.Err != nil {
			return fmt.Errorf("put: %w", spec.Err)
		}
	}
	if spec.OnDisk && spec.Name == "" {
		return fmt.Errorf("put: %w: OnDisk without Named: give a name, by which the object is found after a restart", ErrBadOption)
	}
	n, err := namesOf(t, "put with options")
	if err != nil {
		return err
	}
	if err := c.Failure(); err != nil {
		return err
	}
	defer blocked(t)()
	if err := n.Publish(ctx, c, spec); err != nil {
		return fmt.Errorf("put: %w", err)
	}
	return nil
}

// blocked gives back the CPU of t until the function it returns is called.
func blocked(t *Turn) (again func()) {
	b := t.base
	t.job.Runtime.Block(b)
	return func() { t.job.Runtime.Unblock(b) }
}

// Lookup is raysys.Lookup.
func Lookup[T any](ctx context.Context, name string) Ref[T] {
	c, err := lookup(ctx, name, TypeOf[T]())
	if err != nil {
		return FailedRef[T](err)
	}
	return Ref[T]{Link: Link{c}}
}

func lookup(ctx context.Context, name string, of *ValueType) (*Future, error) {
	t, _, err := TurnOf(ctx)
	if err != nil {
		return nil, err
	}
	n, err := namesOf(t, "look up "+name)
	if err != nil {
		return nil, err
	}
	again := blocked(t)
	c, err := n.Lookup(ctx, name)
	if tasks := t.job.Tasks; tasks != nil && errors.Is(err, ErrNotFound) {
		c, err = tasks.LookupTask(ctx, name)
	}
	again()
	if err == nil {
		c, err = c.As(of)
	}
	if err != nil {
		return nil, fmt.Errorf("look up %q: %w", name, err)
	}
	return c, nil
}

// Forget is raysys.Forget.
func Forget(ctx context.Context, name string) error {
	t, _, err := TurnOf(ctx)
	if err != nil {
		return err
	}
	n, err := namesOf(t, "forget "+name)
	if err != nil {
		return err
	}
	defer blocked(t)()
	err = n.Forget(ctx, name)
	if tasks := t.job.Tasks; tasks != nil && errors.Is(err, ErrNotFound) {
		err = tasks.ForgetTask(ctx, name)
	}
	if err != nil {
		return fmt.Errorf("forget %q: %w", name, err)
	}
	return nil
}

// keep tells Objects of a value that may be large, to which v points. Where it is not yet in c, no other goroutine may see it.
func (c *Future) keep(v any) error {
	o := c.up.job.Objects
	if o == nil || c.word.Load()&flagGated == 0 || !MayBeLarge(reflect.ValueOf(v).Elem()) {
		return nil
	}
	c.word.Or(flagKept)
	kept, err := o.Keep(c, v)
	if !kept || err != nil {
		c.word.And(^flagKept)
	}
	return err
}

// resolvedKept is resolved where there is a store.
func (c *Future) resolvedKept() bool {
	err := c.keep(c.pointer(c.valueType()))
	if err == nil && c.settle(phaseReady) {
		c.settleReleased()
		return true
	}
	c.Forget()
	c.dropped(c.word.Load()&flagKept != 0)
	return err != nil && c.Fail(fmt.Errorf("keep the value of %s: %w", c.work.Name(), err))
}

// settleReleased frees a value that was released before it came.
func (c *Future) settleReleased() {
	if c.word.Load()&flagReleased != 0 {
		if c.valueType() != nil {
			c.release()
		}
	}
}

// dropped tells Objects of a value that it kept. No lock may be held.
func (c *Future) dropped(kept bool) {
	if kept {
		c.up.job.Objects.Drop(c)
	}
}

// MayBeLarge is false where a look at the head of a value shows that it is no object. It takes no lock and looks
// nothing up.
func MayBeLarge(r reflect.Value) bool {
	switch r.Kind() {
	case reflect.String:
		return r.Len() > ObjectSize
	case reflect.Slice:
		n := r.Len()
		if e := r.Type().Elem(); e.Kind() <= reflect.Complex128 {
			// Numbers have up to eight bytes on the wire, whatever they have here.
			return n*max(int(e.Size()), 8) > ObjectSize
		}
		return n > 0
	case reflect.Map:
		return r.Len() > 0
	case reflect.Pointer, reflect.Interface:
		return !r.IsNil()
	}
	return true
}
