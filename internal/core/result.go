package core

import (
	"errors"
	"runtime"
	"sync/atomic"
)

// Result is a Future with its value, the record behind a Ref: tasks and grains embed it at the start of theirs. The Future
// is a plain field: were it embedded, the compiler would write a wrapper of each of its 56 methods for each record and each
// argument and result type, nearly half of all functions of a program like examples/sgd.
type Result[T any] struct {
	Future Future
	val    T
}

// Resolve settles the future with v, and reports whether it was first. Only the goroutine that started the work may
// call it.
func (f *Result[T]) Resolve(v T) bool {
	f.val = v
	if f.Future.word.Load()&flagGated != 0 && f.Future.up != nil && f.Future.up.job.Objects != nil {
		return f.resolveKept()
	}
	if f.Future.settle(phaseReady) {
		return true
	}
	var zero T
	f.val = zero // cancelled meanwhile: val is read in phase ready only
	return false
}

// Into returns the memory of the value, for a goroutine that started the work and has the value written there before it
// calls Resolve.
func (f *Result[T]) Into() *T { return &f.val }

// Here returns the memory of the value of a ready future, for work that no other goroutine can release or evict; false
// when it is not here, or not so simple: Outcome tells.
func (f *Result[T]) Here() (*T, bool) {
	return &f.val, f.Future.word.Load()&(phaseMask|flagReleased|flagAbsent|flagKept) == phaseReady
}

// Ref returns the reference to hand out.
func (f *Result[T]) Ref() Ref[T] { return Ref[T]{Link[T]{f}} }

// read returns the outcome of a settled future, or the future that brings its value when that is elsewhere. t is the
// turn that reads, which may hold a pin.
func (f *Result[T]) read(t *Turn) (v T, from *fetched[T], err error) {
	w := f.Future.word.Load()
	if w&(phaseMask|flagGated|flagReleased|flagAbsent) == phaseReady {
		return f.val, nil, nil
	}
	if w&phaseMask != phaseReady {
		return v, nil, f.Future.Failure()
	}
	f.Future.mu.Lock()
	defer f.Future.mu.Unlock()
	w = f.Future.word.Load()
	switch {
	case w&phaseMask == phaseReleased:
		return v, nil, ErrReleased
	case w&flagReleased != 0 && (t == nil || !t.pinned(&f.Future)):
		return v, nil, ErrReleased
	case w&flagAbsent != 0:
		return v, f.fetchLocked(), nil
	}
	return f.val, nil, nil
}

// pin keeps the value readable for a dependant although the program releases it; unpin ends that.
func (f *Result[T]) pin() {
	f.Future.mu.Lock()
	f.Future.pins++
	f.Future.mu.Unlock()
}

func (f *Result[T]) unpin() {
	f.Future.mu.Lock()
	f.Future.pins--
	freed := f.dropLocked()
	f.Future.mu.Unlock()
	f.dropped(freed)
}

// dropLocked frees the value once it is released and has no pin, and reports whether Objects.Drop is to be called.
func (f *Result[T]) dropLocked() (kept bool) {
	w := f.Future.word.Load()
	if f.Future.pins > 0 || w&flagReleased == 0 || w&phaseMask != phaseReady {
		return false
	}
	if !f.Future.move(phaseReady, phaseReleased) {
		return false
	}
	if f.Future.absenceLocked() != nil {
		f.Future.waiters = nil // and with it the source, which releases the object
	}
	if t := f.Future.own.Load(); t != nil {
		t.recipe.Store(nil)
	}
	if w&flagGated != 0 { // readers of an ungated value take no lock, and there is nothing to free
		var zero T
		f.val = zero
	}
	return w&flagKept != 0
}

func (f *Result[T]) release() {
	f.Future.mu.Lock()
	f.Future.word.Or(flagReleased)
	freed := f.dropLocked()
	f.Future.mu.Unlock()
	f.dropped(freed)
}

// typed is how a Future finds its Result again: every producer of a Future registers one.
type typed interface {
	self() any
	futureOf() *Future
	pin()
	unpin()
	release()
	valuePtr() any
	copyPtr() any
	fetching() *Future
	forget()
}

func (f *Result[T]) valuePtr() any     { return &f.val }
func (f *Result[T]) self() any         { return f }
func (f *Result[T]) futureOf() *Future { return &f.Future }

// copyPtr returns a copy of the value, which may be forgotten at any moment; nil when it was.
func (f *Result[T]) copyPtr() any {
	f.Future.mu.Lock()
	defer f.Future.mu.Unlock()
	if f.Future.word.Load()&(phaseMask|flagAbsent) != phaseReady {
		return nil
	}
	v := f.val
	return &v
}

// failure is the outcome of a future that did not become ready.
type failure struct {
	err   error
	phase uint32
	seen  atomic.Bool // err was read
}

// watchUnseen arranges a report when the future is collected and its failure was never read. Only failures pay for
// the cleanup.
func (t *Turn) watchUnseen(c *Future, f *failure) {
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
func failurePhase(err error) (phase uint32) {
	defer func() {
		if recover() != nil { // a method of err: the future has to settle
			phase = phaseFailed
		}
	}()
	switch {
	case ownFailure(err): // also where its cause is that something else was cancelled or lost
		return phaseFailed
	case errors.Is(err, ErrCancelled), errors.Is(err, ErrClosed):
		return phaseCancelled
	case errors.Is(err, ErrObjectLost):
		return phaseLost
	}
	return phaseFailed
}

func ownFailure(err error) bool {
	own, ok := err.(interface{ Is(error) bool })
	return ok && own.Is(ErrOwnFailure)
}
