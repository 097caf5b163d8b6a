package limit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/grains/internal/promise"
)

// Permit is a right to work, of one Take. Any goroutine may use it.
type Permit struct {
	take
	gate  grains.Grain[gate]
	above context.Context // of Take

	over atomic.Bool

	mu   sync.Mutex      // guards the rest
	ctx  context.Context // nil until Context makes it, as all until hold
	end  context.CancelCauseFunc
	stop func() bool // of what watches above
	hold raysys.Ref[struct{}]
	made time.Time // when hold was
}

// Take waits until units of l are free for key, and takes them. The permit ends with Release, and with ctx at the
// latest: to bound the wait alone cancel a context of your own while Take waits.
//
// It fails with ErrBusy by Try, with raysys.ErrBadOption for a limit, units or an option that cannot be meant, with
// raysys.ErrTooLarge for a name and a key of more than 1,000 bytes together, and as calls of grains do.
func Take(ctx context.Context, l Limit, key string, units int, opts ...Option) (*Permit, error) {
	t, err := l.take(units, opts)
	if err == nil {
		p := &Permit{take: t, gate: gates.Get(l.key(key)), above: ctx}
		if err = p.begin(); err == nil {
			return p, nil
		}
	}
	return nil, fmt.Errorf("take %d of limit %q for %q: %w", units, l.name, key, err)
}

// begin waits for the units.
func (p *Permit) begin() error {
	ctx := p.above
	if p.Per == 0 { // one of a Rate, which nobody has to release, leaves nothing in the context of Take
		ctx = p.Context()
		p.holdOn(p.above)
	}
	for {
		began, granted := time.Now(), acquire.Call(p.above, p.gate, p.take)
		_, err := granted.Get(ctx)
		if err == nil {
			return nil
		}
		granted.Cancel()
		if !tooOften(err, began) {
			p.finish(err)
			return err
		}
	}
}

// tooOften reports whether a call of that time failed because it was made again too often, for one gate after the
// other. It is made anew then.
func tooOften(err error, began time.Time) bool {
	lost := errors.Is(err, raysys.ErrNotDelivered) || errors.Is(err, raysys.ErrMoved)
	return (lost || errors.Is(err, grains.ErrUnsettled)) && time.Since(began) > 10*hearing
}

// holdOn makes the call that stands for the permit.
func (p *Permit) holdOn(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over.Load() {
		return
	}
	p.hold, p.made = hold.Call(ctx, p.gate, p.take), time.Now()
	promise.On(p.hold, func(failure error) {
		if failure != nil && !p.over.Load() {
			go p.holdFailed(failure)
		}
	})
}

func (p *Permit) holdFailed(err error) {
	p.mu.Lock()
	again := tooOften(err, p.made)
	p.mu.Unlock()
	if again {
		p.holdOn(raysys.Branch(p.above, int(p.ID>>1)))
	} else {
		p.finish(fmt.Errorf("the permit is lost: %w", err))
	}
}

// Release gives the units back, the first time. It waits for nothing.
func (p *Permit) Release() { p.finish(nil) }

// Context is derived from the ctx of Take, and ends with the permit: its Cause says why.
func (p *Permit) Context() context.Context {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx != nil {
		return p.ctx
	}
	p.ctx, p.end = context.WithCancelCause(p.above)
	if p.over.Load() {
		p.end(nil)
		return p.ctx
	}
	p.stop = context.AfterFunc(p.above, func() { p.finish(context.Cause(p.above)) }) // at once where it has ended
	return p.ctx
}

// finish ends the permit.
func (p *Permit) finish(cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over.Swap(true) {
		return
	}
	if p.ctx != nil {
		p.end(cause)
		p.stop()
	}
	if p.Per == 0 {
		_ = release.Tell(p.above, p.gate, p.ID) // fails where the context has ended
		p.hold.Cancel()
	}
}
