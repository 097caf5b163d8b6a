package transfer

import (
	"context"
	"errors"
	"sync"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/objectstore"
)

// flight is an object that this node receives, for all its callers.
type flight struct {
	e      *Engine
	name   raysys.TaskID
	form   objectstore.Form
	ctx    context.Context // ended when it is decided
	cancel context.CancelCauseFunc
	done   chan struct{} // closed by land
	begun  chan struct{} // closed when it is known what comes and the store has made room
	need   chan struct{} // of capacity 1: another source may be wanted
	crew   sync.WaitGroup

	// Guarded by the engine's mu.
	waiters int
	ending  bool // the last waiter left before it was over
	over    bool
	object  *objectstore.Object // these two stay once done is closed
	err     error

	mu       sync.Mutex // guards the rest
	want     objectstore.Version
	version  objectstore.Version // of what is received; all sources have it
	in       *objectstore.Incoming
	making   chan struct{} // closed when the feed that asks the store for room has an answer; nil when none does
	cargo    cargo
	sources  []Sources
	stop     context.CancelFunc // of the Next that runs; nil when none does
	feeds    map[*feed]struct{}
	struck   []error               // what sources that gave nothing answered
	open     error                 // the first of them after which the object may still be somewhere
	held     []*objectstore.Object // pinned until the flight is over
	decided  bool
	verdict  *objectstore.Object
	judgment error
}

func newFlight(e *Engine, want objectstore.Version, form objectstore.Form) *flight {
	f := &flight{
		e: e, name: want.ID, form: form, want: want, done: make(chan struct{}), begun: make(chan struct{}), need: make(chan struct{}, 1), feeds: map[*feed]struct{}{},
	}
	f.ctx, f.cancel = context.WithCancelCause(e.life)
	return f
}

// join adds what one more caller knows. Whether what comes is the version that this one wants is seen when it leaves:
// others may have wanted any.
func (f *flight) join(sources Sources) {
	f.mu.Lock()
	f.sources = append(f.sources, sources)
	if f.stop != nil && len(f.feeds) == 0 {
		f.stop() // it waits for changes, and the new source list may have a node
	}
	f.mu.Unlock()
	f.wake()
}

func (f *flight) wake() {
	select {
	case f.need <- struct{}{}:
	default:
	}
}

// decide ends the flight, once.
func (f *flight) decide(o *objectstore.Object, err error) {
	f.mu.Lock()
	first := !f.decided
	if first {
		f.decided, f.verdict, f.judgment = true, o, err
	}
	f.mu.Unlock()
	if first {
		f.cancel(errDecided)
	}
}

// hold keeps an object, which is pinned for that, until the flight is over: a copy without a pin may be dropped for
// room before the waiters have it.
func (f *flight) hold(o *objectstore.Object) {
	f.mu.Lock()
	f.held = append(f.held, o)
	f.mu.Unlock()
}

// arrived ends the flight with the object, which it holds.
func (f *flight) arrived(o *objectstore.Object, v objectstore.Version) {
	f.mu.Lock()
	if !f.decided {
		f.version = v
	}
	f.mu.Unlock()
	f.decide(o, nil)
}

var errDecided = errors.New("the transfer is over")

// run is the flight's own goroutine: it finds sources until it is decided, and sees all of it end.
func (f *flight) run() {
	f.seek()
	f.decide(nil, context.Cause(f.ctx)) // if the callers or Close ended it
	f.crew.Wait()
	f.mu.Lock()
	o, err, in, held := f.verdict, f.judgment, f.in, f.held
	f.mu.Unlock()
	if err != nil {
		o = nil
		if in != nil {
			in.Abort(err)
		}
		f.e.counts.failed.Add(1)
	}
	f.land(o, err)
	for _, o := range held {
		o.Unpin()
	}
}

// seek gets sources as they are wanted.
func (f *flight) seek() {
	for {
		select {
		case <-f.need:
		case <-f.ctx.Done():
			return
		}
		for f.ctx.Err() == nil {
			from, ctx := f.next()
			if from == nil {
				break
			}
			key, err := from.Next(ctx)
			f.nexted(from, key, err, ctx.Err() != nil)
		}
	}
}

// next returns the Sources to ask for a node, and a context for that; nil when no source is wanted, or none is known.
func (f *flight) next() (Sources, context.Context) {
	f.mu.Lock()
	if f.decided || !f.wants() {
		f.mu.Unlock()
		return nil, nil
	}
	if len(f.sources) == 0 {
		lost := len(f.feeds) == 0
		err := f.lost()
		f.mu.Unlock()
		if lost {
			f.decide(nil, err)
		}
		return nil, nil
	}
	var ctx context.Context
	ctx, f.stop = context.WithCancel(f.ctx)
	from := f.sources[0]
	f.mu.Unlock()
	return from, ctx
}

// wants reports whether one more source would help. mu is held.
func (f *flight) wants() bool {
	most := 1
	if f.in != nil && f.version.Size >= f.e.cfg.SeveralFrom {
		most = sourcesAtOnce
	}
	healthy := 0
	for d := range f.feeds {
		if !d.slow {
			healthy++
		}
	}
	return healthy < most && len(f.feeds) < most+maxSlow
}

// maxSlow is how many stalled sources are kept beside the others.
const maxSlow = 4

// nexted takes what Next returned.
func (f *flight) nexted(from Sources, key core.NodeKey, err error, stopped bool) {
	f.mu.Lock()
	f.stop()
	f.stop = nil
	switch {
	case err == nil:
		d := newFeed(f, key)
		f.addFeed(d)
	case stopped && f.ctx.Err() == nil: // others first
		f.sources = append(f.sources[1:], from)
	case f.ctx.Err() == nil:
		f.sources = f.sources[1:]
		f.strike(err)
	}
	f.mu.Unlock()
}

// addFeed begins a conversation, unless there is one with that node. mu is held.
func (f *flight) addFeed(d *feed) {
	if d.key == f.e.cfg.Self() || f.talksTo(d.key) {
		return
	}
	f.feeds[d] = struct{}{}
	f.crew.Add(1)
	go func() { // the flight's own goroutine waits for it, and Close for that
		defer f.crew.Done()
		f.left(d, d.talk())
	}()
}

// talksTo reports whether a feed is with that node. mu is held.
func (f *flight) talksTo(k core.NodeKey) bool {
	for d := range f.feeds {
		if d.key == k {
			return true
		}
	}
	return false
}

// left ends a feed; why is nil when the flight is over.
func (f *flight) left(d *feed, why error) {
	f.mu.Lock()
	delete(f.feeds, d)
	if why != nil {
		f.strike(why)
	}
	f.mu.Unlock()
	f.wake()
	if why != nil {
		f.e.counts.struck.Add(1)
		if h := f.e.cfg.Hooks.Struck; h != nil {
			h(d.key, f.name, why)
		}
	}
}
