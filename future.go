package raysys

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"sync/atomic"
)

// Future is the typed record behind a Ref. For runtimes: tasks and grains embed it at the start of theirs.
type Future[T any] struct {
	Core
	val T
}

// Resolve settles the future with v, and reports whether it was first. Only the goroutine that started the work may
// call it.
func (f *Future[T]) Resolve(v T) bool {
	f.val = v
	if f.word.Load()&flagGated != 0 && f.up != nil && f.up.job.Objects != nil {
		return f.resolveKept()
	}
	if f.settle(phaseReady) {
		return true
	}
	var zero T
	f.val = zero // cancelled meanwhile: nobody reads val in another phase than ready
	return false
}

// Place returns where the value goes, for a goroutine that started the work and has it written there before it calls
// Resolve.
func (f *Future[T]) Place() *T { return &f.val }

// Here returns where the value of a ready future is, for work that nobody else can release or forget; false when it is
// not here, or not so simple: Outcome tells.
func (f *Future[T]) Here() (*T, bool) {
	return &f.val, f.word.Load()&(phaseMask|flagReleased|flagAbsent|flagKept) == phaseReady
}

// Ref returns the reference to hand out.
func (f *Future[T]) Ref() Ref[T] { return Ref[T]{f} }

// read returns the outcome of a settled future, or the future that brings its value when that is elsewhere. t is the turn
// that reads, which may hold a pin.
func (f *Future[T]) read(t *Turn) (v T, from *foreign[T], err error) {
	w := f.word.Load()
	if w&(phaseMask|flagGated|flagReleased|flagAbsent) == phaseReady {
		return f.val, nil, nil
	}
	if w&phaseMask != phaseReady {
		return v, nil, f.Failure()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	w = f.word.Load()
	switch {
	case w&phaseMask == phaseReleased:
		return v, nil, ErrReleased
	case w&flagReleased != 0 && (t == nil || !t.pinned(&f.Core)):
		return v, nil, ErrReleased
	case w&flagAbsent != 0:
		return v, f.fetchLocked(), nil
	}
	return f.val, nil, nil
}

// pin keeps the value readable for a dependant although the program releases it; unpin ends that.
func (f *Future[T]) pin() {
	f.mu.Lock()
	f.pins++
	f.mu.Unlock()
}

func (f *Future[T]) unpin() {
	f.mu.Lock()
	f.pins--
	freed := f.dropLocked()
	f.mu.Unlock()
	f.dropped(freed)
}

// Borrow keeps the value behind r readable until Return. For runtimes: a submission by reference borrows at once, so
// that the program may release the reference right after. t is the turn that submits: one that holds a pin may lend a
// released value on.
func (r Ref[T]) Borrow(t *Turn) error {
	f := r.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if w := f.word.Load(); w&flagReleased != 0 && (w&phaseMask == phaseReleased || !t.pinned(&f.Core)) {
		return ErrReleased
	}
	f.pins++
	return nil
}

// Peek returns the outcome of a settled future that was borrowed; here is false when its value is elsewhere, even if it was
// here a moment ago: see Core.Follow. For runtimes.
func (r Ref[T]) Peek() (v T, here bool, err error) {
	f := r.f
	if err := f.Failure(); err != nil {
		return v, true, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.word.Load()&(phaseMask|flagAbsent) != phaseReady {
		return v, false, nil
	}
	return f.val, true, nil
}

// Return ends the loan of Borrow. For runtimes.
func (r Ref[T]) Return() { r.f.unpin() }

// Settled reports whether the future has its outcome. For runtimes; programs use State.
func (r Ref[T]) Settled() bool { return r.f.Settled() }

// dropLocked frees the value once it is released and nobody holds a pin, and reports whether Objects is to be told.
func (f *Future[T]) dropLocked() (kept bool) {
	w := f.word.Load()
	if f.pins > 0 || w&flagReleased == 0 || w&phaseMask != phaseReady {
		return false
	}
	if !f.move(phaseReady, phaseReleased) {
		return false
	}
	if f.absenceLocked() != nil {
		f.waiters = nil // and with it the source, which lets go of what it stands for
	}
	if w&flagGated != 0 { // readers of an ungated value take no lock, and there is nothing to free
		var zero T
		f.val = zero
	}
	return w&flagKept != 0
}

func (f *Future[T]) release() {
	f.mu.Lock()
	f.word.Or(flagReleased)
	freed := f.dropLocked()
	f.mu.Unlock()
	f.dropped(freed)
}

// Ref is a reference to a value that exists now or later: the result of a task, of a grain call or of Put. It is
// one word and may be copied. The zero Ref refers to nothing, and Get on it returns ErrInvalidRef.
type Ref[T any] struct{ f *Future[T] }

// Handle is a reference that is passed on without being waited for: a Ref inside a task's argument is a dependency,
// a Handle is a value.
type Handle[T any] struct{ ref Ref[T] }

// Handle returns r as a value to pass on.
func (r Ref[T]) Handle() Handle[T] { return Handle[T]{r} }

// Ref returns the reference that h carries.
func (h Handle[T]) Ref() Ref[T] { return h.ref }

// ID returns the id of the submission that produces the value; zero for Ready values.
func (r Ref[T]) ID() TaskID {
	if r.f == nil {
		return TaskID{}
	}
	return r.f.ID()
}

// IsZero reports whether r refers to nothing.
func (r Ref[T]) IsZero() bool { return r.f == nil }

// Cancel ends the work behind r, also when it runs already, and everything it submitted (but for Detached work).
// The future settles at once with ErrCancelled; running code learns of it through its context. It reports whether
// the future was still open.
func (r Ref[T]) Cancel() bool {
	if r.f == nil {
		return false
	}
	return r.f.Cancel(ErrCancelled)
}

// Release says that this program needs the value no longer. Later Gets return ErrReleased; tasks that were given the
// reference before still read it, and the memory is freed after the last of them. Inside one process Release is
// optional: the garbage collector frees what nothing refers to.
func (r Ref[T]) Release() {
	if r.f != nil {
		r.f.release()
	}
}

// String shows the id and the state, for logs.
func (r Ref[T]) String() string {
	return fmt.Sprintf("ref(%s %s)", r.ID(), State(r))
}

// RefCore implements RefValue.
func (r *Ref[T]) RefCore() *Core {
	if r.f == nil {
		return nil
	}
	return &r.f.Core
}

// typed is how a Core finds its Future again: every producer of a Core registers one.
type typed interface {
	refOf() any
	coreOf() *Core
	pin()
	unpin()
	release()
	valuePtr() any
	copyPtr() any
	fetching() *Core
	forget()
}

func (f *Future[T]) valuePtr() any { return &f.val }
func (f *Future[T]) refOf() any    { return Ref[T]{f} }
func (f *Future[T]) coreOf() *Core { return &f.Core }

// copyPtr returns a copy of the value, which may be forgotten at any moment; nil when it was.
func (f *Future[T]) copyPtr() any {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.word.Load()&(phaseMask|flagAbsent) != phaseReady {
		return nil
	}
	v := f.val
	return &v
}

// SetRefCore implements RefValue.
func (r *Ref[T]) SetRefCore(c *Core) error {
	if c == nil {
		r.f = nil
		return nil
	}
	if u, ok := c.work.(untyped); ok {
		got, err := adopt[T](u.f)
		if err == nil {
			*r = got
		}
		return err
	}
	src, ok := c.holder()
	if ok {
		if got, same := src.refOf().(Ref[T]); same {
			*r = got
			return nil
		}
	}
	return fmt.Errorf("%w: not a reference to %s", ErrInvalidRef, reflect.TypeFor[T]())
}

// IsDependency implements RefValue.
func (r *Ref[T]) IsDependency() bool { return true }

// RefCore implements RefValue.
func (h *Handle[T]) RefCore() *Core { return h.ref.RefCore() }

// SetRefCore implements RefValue.
func (h *Handle[T]) SetRefCore(c *Core) error { return h.ref.SetRefCore(c) }

// IsDependency implements RefValue.
func (h *Handle[T]) IsDependency() bool { return false }

// failure is the outcome of a future that did not become ready.
type failure struct {
	err   error
	phase uint32
	seen  atomic.Bool // somebody looked at err
}

// watchUnseen arranges a report when the future is collected and nobody looked at its failure. Only failures pay
// for the cleanup.
func (t *Turn) watchUnseen(c *Core, f *failure) {
	if t.job.Unseen == nil || f.phase == phaseCancelled {
		return
	}
	tell, name := t.job.Unseen, c.work.Name()
	runtime.AddCleanup(c, func(f *failure) {
		if !f.seen.Load() {
			tell(name, f.err)
		}
	}, f)
}

// failurePhase says how a future that ends with err has ended.
func failurePhase(err error) uint32 {
	switch _, app := err.(*TaskError); {
	case app: // the work's own failure, also where its cause is that something else was cancelled or lost
		return phaseFailed
	case errors.Is(err, ErrCancelled), errors.Is(err, ErrClosed):
		return phaseCancelled
	case errors.Is(err, ErrObjectLost):
		return phaseLost
	}
	return phaseFailed
}
