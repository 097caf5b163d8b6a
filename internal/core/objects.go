package core

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"unsafe"
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
	// LookupTask finds the task. The error matches ErrNotFound when no task has the name.
	LookupTask(ctx context.Context, name string) (FoundTask, error)
	// ForgetTask frees the name, and cancels its task. The error matches ErrNotFound when no task has it.
	ForgetTask(ctx context.Context, name string) error
	// EndTask returns what cancels the task with a name that c, which has not settled, refers to, wherever it runs; nil where c is of none,
	// or is itself all that there is to cancel. It waits until the task will not run again, or for as long as a program may.
	EndTask(c *Future) func()
	// ListTasks lists the tasks with names of which this node is the submitter, and which have not settled, by name.
	ListTasks() []NamedTask
}

// FoundTask is the task that has a name.
type FoundTask struct {
	*Future        // of its outcome
	Digest  uint64 // of its function, argument and key
	Over    bool   // it has its outcome
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
	b := t.Base()
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
		var found FoundTask
		found, err = tasks.LookupTask(ctx, name)
		c = found.Future
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

// object is the Work of a future without work: of a value from Put or Ready, or of a failure that happened before there was any work.
type object ValueType

func (o *object) ValueType() *ValueType     { return (*ValueType)(o) }
func (*object) Name() string                { return "object" }
func (*object) Help(*Turn) bool             { return false }
func (*object) Expires() int64              { return 0 }
func (*object) Waits() ([]*Turn, []*Future) { return nil, nil }
func (*object) Break([]string) bool         { return false }
func (*object) unmade()                     {} // Explain says so

// Put is raysys.Put, which is its only caller: the place in reports is that caller's.
func Put[T any, O ~func(*PutSpec)](ctx context.Context, v T, opts []O) Ref[T] {
	t, _, err := TurnOf(ctx)
	if err != nil {
		return FailedRef[T](err)
	}
	of := TypeOf[T]()
	o := &Result[T]{val: v}
	if t.job.Inspect != nil {
		if err := HandOver(t.job, "value of Put"+callSite(2), of, o.Future.ValueAt()); err != nil {
			return FailedRef[T](err)
		}
	}
	o.Future.put(of, t, t.Next())
	if len(opts) > 0 {
		if err := publish(ctx, t, &o.Future, opts); err != nil {
			return FailedRef[T](err)
		}
	}
	return RefTo(o)
}

// Hold makes an object of a part of c's argument, the value of t at p, which is too large to travel along.
func Hold(c *Future, part int, t *ValueType, p unsafe.Pointer) *Future {
	o := t.make()
	o.value(t).Set(t.At(p))
	o.put(t, c.up, firstHeld+c.seq<<2+uint64(part))
	return o
}

// FailedOf is FailedRef for a value of t.
func FailedOf(t *ValueType, err error) *Future {
	o := t.make()
	o.work = (*object)(t)
	o.failed(err)
	return o
}

// Own makes an object of a value that the node keeps for itself: its n-th.
func Own[T any](job *Job, n uint64, v T) *Future {
	o := &Result[T]{val: v}
	o.Future.put(TypeOf[T](), job.Top, firstOwn+n)
	return &o.Future
}

// firstOwn is where the numbers of Own begin among the submissions of a job's top.
const firstOwn = 1 << 61

// firstHeld is where the numbers of Hold begin among the submissions of a turn; no program counts that far.
const firstHeld = 1 << 62

// Ready is raysys.Ready.
func Ready[T any](v T) Ref[T] {
	o := &Result[T]{val: v}
	o.Future.put(TypeOf[T](), nil, 0)
	return RefTo(o)
}

// FailedRef returns a reference that has failed with err. Submissions report everything through their
// reference.
func FailedRef[T any](err error) Ref[T] {
	return Ref[T]{Link: Link{FailedOf(TypeOf[T](), err)}}
}

// Phase is raysys.Phase; the two number the phases alike.
type Phase uint8

// The phases of a future.
const (
	PhasePending Phase = iota
	PhaseReady
	PhaseFailed
	PhaseLost
	PhaseCancelled
	PhaseReleased
)

// IDOf returns the id of the submission that produces the value; zero for values of Ready.
func IDOf(l Link) TaskID {
	if l.future == nil {
		return TaskID{}
	}
	return l.future.ID()
}

// CancelOf ends the work behind a reference, and reports whether its future was still open.
func CancelOf(l Link) bool {
	c := l.future
	if c == nil || c.Settled() {
		return false
	}
	var end func()
	if tasks := c.up.job.Tasks; tasks != nil {
		end = tasks.EndTask(c)
	}
	open := c.Cancel(ErrCancelled)
	if open && end != nil {
		end()
	}
	return open
}

// Bytes shows a number of bytes in the largest unit that leaves a figure before the point, to four digits: "4 GiB".
func Bytes(n int64) string {
	f, unit := float64(n), "B"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB", "PiB"} {
		if f < 1<<10 {
			break
		}
		f, unit = f/(1<<10), next
	}
	return fmt.Sprintf("%.4g %s", f, unit)
}
