package grainengine

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/tally"
)

// ErrActivation is grains.ErrActivation.
var ErrActivation = errors.New("activation failed")

// ErrNotLoaded says of an ErrActivation that a State was not read: the program's OnActivate has not run, and the cause tells whether the next
// call may fare better.
var ErrNotLoaded = errors.New("its State was not read")

// ErrDurableTurn is grains.ErrDurableTurn.
var ErrDurableTurn = errors.New("a turn of a durable grain may run again, and this call may not")

// ErrReplyGone is grains.ErrReplyGone.
var ErrReplyGone = fmt.Errorf("%w: the reply to a call that was made before is not kept", raysys.ErrOutcomeUnknown)

// ErrSettled is grains.ErrSettled.
var ErrSettled = errors.New("the call is settled already")

// ErrUnsettled is grains.ErrUnsettled.
var ErrUnsettled = fmt.Errorf("%w: the grain kept the call and did not settle it", raysys.ErrOutcomeUnknown)

// The names are on the wire: they never change.
var (
	_ = raysys.RegisterError("grains.activation", ErrActivation)
	_ = raysys.RegisterError("grains.not-loaded", ErrNotLoaded)
	_ = raysys.RegisterError("grains.durable-turn", ErrDurableTurn)
	_ = raysys.RegisterError("grains.reply-gone", ErrReplyGone)
	_ = raysys.RegisterError("grains.settled", ErrSettled)
	_ = raysys.RegisterError("grains.unsettled", ErrUnsettled)
)

// failedActivation is why the calls to a grain fail: its OnActivate did, or its State could not be read.
type failedActivation struct {
	kind, grain string // the grain is kind/key, as messages have it
	err         error
}

func (f *failedActivation) Error() string {
	return fmt.Sprintf("%s: %v: %v", f.grain, ErrActivation, f.err)
}

func (f *failedActivation) Unwrap() []error { return []error{ErrActivation, f.err} }

// text is the cause without the key, so that all grains of the kind that fail alike are one line in lists of failures.
func (f *failedActivation) text() string {
	text := f.err.Error()
	if failed, ok := errors.AsType[*raysys.TaskError](f.err); ok {
		text = failed.Err.Error()
	}
	return strings.ReplaceAll(text, f.grain, f.kind+"/*")
}

// failedWarnEvery is how often a kind's failed activations are logged.
const failedWarnEvery = 10 * time.Second

// failedWarns are those of one kind.
type failedWarns struct {
	mu   sync.Mutex // guards the rest
	next int64      // on the runtime's clock
	left int        // that were not logged since the last line
}

// take reports whether one that fails now is logged, and how many were not since the last.
func (w *failedWarns) take(now int64) (left int, logged bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now < w.next {
		w.left++
		return 0, false
	}
	left, w.left, w.next = w.left, 0, now+int64(failedWarnEvery)
	return left, true
}

// countFailed counts a failed activation as a run of KIND.OnActivate, and tells the operator.
func countFailed(a *activation, id string, f *failedActivation) {
	e, o := a.kind.engine, tally.Error
	if errors.Is(f.err, raysys.ErrPanic) {
		o = tally.Panic
	}
	e.cfg.Tally.Function(tally.CallKind, f.kind+".OnActivate").Failed(o, time.Now(), func() tally.Example {
		work := f.kind + "/" + a.key + ".OnActivate"
		return tally.Example{Text: f.text(), ID: id, Work: work, Stack: raysys.Stack(f.err)}
	})
	if left, logged := a.kind.failed.take(e.cfg.Now()); logged {
		detail := f.err.Error()
		if left > 0 {
			detail += fmt.Sprintf("; %d more of the kind failed since the last line", left)
		}
		a.warn("activation failed", detail)
	}
}
