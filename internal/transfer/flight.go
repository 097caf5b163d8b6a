package transfer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/wire"
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

// pump asks d for as many chunks as its window has room for. It is called without locks, also by landings, on the
// reader of the connection that they came over: the next ask leaves before any waiter is woken.
func (f *flight) pump(d *feed) {
	f.mu.Lock()
	if f.decided || f.in == nil || !d.ready || d.peer == nil {
		f.mu.Unlock()
		return
	}
	window := f.e.cfg.Window
	if room := window - len(d.pending); room < min(window, (window+3)/4) && len(d.pending) > 0 {
		f.mu.Unlock() // a few at a time
		return
	}
	var spans []span
	for len(d.pending) < window {
		i := f.cargo.take(d)
		if i < 0 && !d.slow && f.steal() {
			i = f.cargo.take(d)
		}
		if i < 0 {
			break
		}
		spans = extend(spans, i)
	}
	peer, slot := d.peer, d.slot
	f.mu.Unlock()
	f.ask(peer, slot, spans)
}

func (f *flight) ask(peer Peer, slot uint64, spans []span) {
	if len(spans) == 0 {
		return
	}
	// Chunks that do not arrive are asked for again when the link is down, or when nothing came for a while.
	_ = peer.Send(wire.Control, wire.KindAsk, appendAsk(make([]byte, 0, 32), slot, spans))
	peer.Flush()
}

// steal reopens what sources that stand still were asked for. mu is held.
func (f *flight) steal() bool {
	before := len(f.cargo.again)
	for d := range f.feeds {
		if d.slow {
			f.cargo.release(d)
		}
	}
	return len(f.cargo.again) > before
}

// pumpAll asks every source with room, after chunks were opened again.
func (f *flight) pumpAll() {
	f.mu.Lock()
	feeds := make([]*feed, 0, len(f.feeds))
	for d := range f.feeds {
		feeds = append(feeds, d)
	}
	f.mu.Unlock()
	for _, d := range feeds {
		f.pump(d)
	}
}

// begin takes the version that a source has. The first makes room in the store, which may wait for it; others must have
// the same (rule C22).
func (f *flight) begin(v objectstore.Version) error {
	f.mu.Lock()
	for f.in == nil && f.making != nil {
		making := f.making
		f.mu.Unlock()
		select {
		case <-making:
		case <-f.ctx.Done():
			return nil
		}
		f.mu.Lock()
	}
	if f.in != nil || f.decided { // its outcome must not change
		defer f.mu.Unlock()
		if f.decided || f.version == v {
			return nil
		}
		return other(f.version, v)
	}
	want := f.want
	made := make(chan struct{})
	f.making = made
	f.mu.Unlock()
	in, err := f.receive(want, v)
	f.mu.Lock()
	f.making = nil
	close(made)
	if in != nil {
		f.in, f.version = in, v
		f.cargo.load(objectstore.Chunks(v.Size))
		close(f.begun)
	}
	f.mu.Unlock()
	if in != nil && v.Size == 0 {
		f.arrived(in.Object(), v)
	}
	return err
}

// receive returns nil without an error when the flight is decided.
func (f *flight) receive(want, v objectstore.Version) (*objectstore.Incoming, error) {
	if err := compare(want, v); err != nil {
		return nil, err
	}
	if err := v.Check(); err != nil {
		return nil, err
	}
	in, err := f.e.cfg.Store.Receive(f.ctx, v, f.form)
	switch {
	case err == nil:
		in.Object().Pin() // which cannot be dropped yet
		f.hold(in.Object())
		return in, nil
	case errors.Is(err, objectstore.ErrPresent): // another goroutine stored it meanwhile
		if o := f.e.cfg.Store.Take(v.ID); o != nil {
			f.hold(o)
			here, verr := o.Version(f.ctx)
			if verr == nil {
				f.arrived(o, here)
				return nil, nil
			}
			err = verr
		}
	}
	f.decide(nil, err)
	return nil, nil
}

// leave ends one caller's wait. The last to leave ends the flight, or gives back the flight's own pin.
func (f *flight) leave(ctx context.Context, want objectstore.Version) (o *objectstore.Object, err error) {
	select {
	case <-f.done:
		if o, err = f.object, f.err; err == nil {
			if err = compare(want, f.version); err == nil {
				o.Pin()
			}
		}
	default:
		err = context.Cause(ctx)
	}
	e := f.e
	e.mu.Lock()
	f.waiters--
	last := f.waiters == 0
	over := f.over
	f.ending = f.ending || last && !over
	e.mu.Unlock()
	switch {
	case last && over && f.object != nil:
		f.object.Unpin()
	case last && !over:
		f.cancel(errNoWaiters)
	}
	if err != nil {
		return nil, err
	}
	return o, nil
}

// land ends the flight: with an object, which is pinned for each waiter, or with an error.
func (f *flight) land(o *objectstore.Object, err error) {
	if err == nil {
		o.Pin()
	}
	e := f.e
	e.mu.Lock()
	f.object, f.err, f.over = o, err, true
	delete(e.flights, f.name)
	alone := f.waiters == 0
	e.mu.Unlock()
	close(f.done)
	if alone && err == nil {
		o.Unpin()
	}
}

// landOne returns nil as a Landing, not as a pointer, when the chunk is not wanted: because it came already, or is
// coming from elsewhere, or the conversation has ended since.
func (f *flight) landOne(d *feed, slot uint64, i, size int, sum uint32) Landing {
	f.mu.Lock()
	defer f.mu.Unlock()
	if d.peer == nil || d.slot != slot || f.decided || f.in == nil || i >= len(f.cargo.chunks) || f.cargo.chunks[i].place > asked {
		return nil
	}
	if _, n := f.version.Section(i); n != size {
		return nil
	}
	memory := f.in.Buffer(i)
	if memory == nil {
		return nil
	}
	f.cargo.chunks[i].place = landing
	l := &landed{f, d, slot, i, memory, sum}
	d.landing = l
	f.crew.Add(1) // the flight ends after all its landings
	d.heardNow()
	return l
}

// strike records why a source, or Sources, gave nothing. mu is held.
func (f *flight) strike(why error) {
	if f.open == nil && mayHave(why) {
		f.open = why
	}
	if len(f.struck) < maxStruck { // the first errors explain more than those of repeated tries
		f.struck = append(f.struck, why)
	}
}

// lost is the error of a flight that found no source: the object is lost, unless a node may still have it. mu is
// held.
func (f *flight) lost() error {
	switch {
	case f.open != nil: // other sources may have lost the object; the error must not match that
		return fmt.Errorf("%w: no source gives it: %w (of all: %v)", raysys.ErrUnreachable, f.open, reasons(f.struck))
	case len(f.struck) == 0:
		return fmt.Errorf("%w: there is no node to ask", raysys.ErrObjectLost)
	}
	return fmt.Errorf("%w: no source gives it: %w", raysys.ErrObjectLost, reasons(f.struck))
}

// feedsFrom reports whether k gives this flight its chunks.
func (f *flight) feedsFrom(k core.NodeKey) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.talksTo(k)
}

// upstream lists the nodes that give this flight its chunks or sent it to its source, but for k.
func (f *flight) upstream(k core.NodeKey) (keys []core.NodeKey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for d := range f.feeds {
		if d.key != k && d.ready {
			keys = append(keys, d.key)
		}
	}
	return keys
}

func extend(spans []span, i int) []span {
	if last := len(spans) - 1; last >= 0 && spans[last].first+spans[last].n == i {
		spans[last].n++
		return spans
	}
	return append(spans, span{i, 1})
}

// checked returns an object that was here already, or unpins it when it is not the one that is wanted.
func checked(ctx context.Context, o *objectstore.Object, want objectstore.Version) (*objectstore.Object, error) {
	if want.Nonce == 0 {
		return o, nil
	}
	v, err := o.Version(ctx)
	if err == nil {
		err = compare(want, v)
	}
	if err != nil {
		o.Unpin()
		return nil, err
	}
	return o, nil
}

// errVersion: versions are never mixed (rule C22).
var errVersion = fmt.Errorf("%w: another version of it is there", raysys.ErrObjectLost)

// compare reports that a version is not the one that is wanted.
func compare(want, got objectstore.Version) error {
	if want.ID == got.ID && (want.Nonce == 0 || want == got) {
		return nil
	}
	return other(want, got)
}

func other(want, got objectstore.Version) error {
	return fmt.Errorf("%w: %s where %s is wanted", errVersion, got, want)
}

// errNoWaiters ends a flight whose callers have all left.
var errNoWaiters = fmt.Errorf("no caller waits for the object any more: %w", context.Canceled)

const maxStruck = 32

// mayHave reports whether the object may exist after the error why: at a node that lives and did not answer that it
// lacks it, or at one that could not be named.
func mayHave(why error) bool {
	var s *sourceError
	if !errors.As(why, &s) {
		return errors.Is(why, raysys.ErrUnreachable)
	}
	switch s.code {
	case codeLacks, codeVersion, codeCorrupt:
		return false
	case codeStarved, codeClosed: // it has only the chunks that others give it, and its own end with it
		return false
	case codeGone:
		return !errors.Is(why, raysys.ErrNodeDead)
	}
	return true
}

// reasons are several errors on one line.
type reasons []error

func (r reasons) Error() string {
	texts := make([]string, len(r))
	for i, err := range r {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

func (r reasons) Unwrap() []error { return r }
