package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/wire"
)

// Engine is a node's end of all its transfers.
type Engine struct {
	cfg     Config
	life    context.Context // ended by Close, for what must outlive its caller
	end     context.CancelCauseFunc
	running sync.WaitGroup // flights, feeds and streams
	base    time.Time      // what now is measured from, monotonic
	counts  counters
	came    chan *landed   // to be verified; closed by Close when nothing more can come
	checks  sync.WaitGroup // the verifiers

	mu       sync.Mutex // guards the rest; taken before a flight's or a stream's, never behind them
	closed   bool
	begun    bool // the verifiers run
	slots    uint64
	flights  map[raysys.TaskID]*flight
	feeds    map[uint64]*feed // by slot
	streams  map[streamKey]*stream
	sending  map[core.NodeKey]chan struct{} // one element per chunk that waits to be written to that peer
	given    map[raysys.TaskID]*copyTree
	forgetAt int // how many of given there may be before those are forgotten that are gone
}

// New makes an engine. It validates cfg and starts nothing.
func New(cfg Config) (*Engine, error) {
	if err := cfg.complete(); err != nil {
		return nil, fmt.Errorf("new transfer engine: %w", err)
	}
	e := &Engine{
		cfg: cfg, base: time.Now(), flights: map[raysys.TaskID]*flight{}, feeds: map[uint64]*feed{}, streams: map[streamKey]*stream{},
		sending: map[core.NodeKey]chan struct{}{}, given: map[raysys.TaskID]*copyTree{}, came: make(chan *landed, maxCame),
	}
	e.life, e.end = context.WithCancelCause(context.Background())
	return e, nil
}

// Close ends every transfer, with raysys.ErrClosed for its waiters, and returns when all goroutines of the engine
// have ended. Chunks that the link still has to write stay lent until it has, or is closed itself.
func (e *Engine) Close() {
	e.mu.Lock()
	first := !e.closed
	e.closed = true
	e.mu.Unlock()
	e.end(raysys.ErrClosed)
	e.running.Wait()
	if first {
		close(e.came) // every flight has ended, and with it every landing
	}
	e.checks.Wait()
}

// runLocked runs f on a goroutine that Close waits for, with mu held; false when the engine is closed.
func (e *Engine) runLocked(f func()) bool {
	if e.closed {
		return false
	}
	e.running.Go(f)
	return true
}

func (e *Engine) now() time.Duration { return time.Since(e.base) }

// Kinds are the frames that Handle takes; bodies of wire.KindChunk go to Land.
func Kinds() []wire.Kind {
	return []wire.Kind{wire.KindPull, wire.KindPulled, wire.KindAsk, wire.KindPullEnd}
}

// Handle takes a frame of one of Kinds. It does not block. An error means that the peer has violated the protocol;
// the connection is to be closed.
func (e *Engine) Handle(from Peer, kind wire.Kind, payload []byte) error {
	var err error
	switch kind {
	case wire.KindPull:
		var p pull
		if err = p.read(payload); err == nil {
			e.onPull(from, &p)
		}
	case wire.KindPulled:
		var a pulled
		if err = a.read(payload); err == nil {
			e.onPulled(keyOf(from), &a)
		}
	case wire.KindAsk:
		var slot uint64
		var spans []span
		if slot, spans, err = readAsk(payload); err == nil {
			err = e.onAsk(keyOf(from), slot, spans)
		}
	case wire.KindPullEnd:
		var slot uint64
		var whole bool
		if slot, whole, err = readEnd(payload); err == nil {
			e.onEnd(keyOf(from), slot, whole)
		}
	default:
		return fmt.Errorf("transfer: a frame of kind %d is not of a transfer", kind)
	}
	if err != nil {
		return fmt.Errorf("transfer: frame of kind %d from %s: %w", kind, keyOf(from), err)
	}
	return nil
}

// PeerDown tells that the link to an incarnation broke, after its last frame.
func (e *Engine) PeerDown(k core.NodeKey, cause error) {
	e.mu.Lock()
	var feeds []*feed
	for _, d := range e.feeds {
		if d.key == k {
			feeds = append(feeds, d)
		}
	}
	for sk, s := range e.streams {
		if sk.peer == k {
			e.dropStream(s)
		}
	}
	delete(e.sending, k)
	e.forgetReceiver(k)
	e.mu.Unlock()
	for _, d := range feeds {
		d.tell(func(in *inbox) { in.down = errors.Join(errLinkDown, cause) })
	}
}

// errLinkDown is why a conversation ended that may go on over the next link.
var errLinkDown = errors.New("the link broke")

// feed returns the conversation that a frame is about; nil when it is over, or another node's.
func (e *Engine) feed(from core.NodeKey, slot uint64) *feed {
	e.mu.Lock()
	defer e.mu.Unlock()
	if d := e.feeds[slot]; d != nil && d.key == from {
		return d
	}
	return nil
}

func (e *Engine) onPulled(from core.NodeKey, a *pulled) {
	if d := e.feed(from, a.slot); d != nil {
		d.tell(func(in *inbox) { in.answer = a })
	}
}

// place decides whether this node gives an object to a receiver itself, which is then counted, or which nodes it
// names instead.
func (e *Engine) place(o *objectstore.Object, to core.NodeKey, failed []failure) (*receiver, []core.NodeKey) {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := e.given[o.ID()]
	if out == nil || out.object != o { // another attempt has the id now: receivers of the last one are no sources of it
		e.forgetAbsent()
		out = &copyTree{o, map[core.NodeKey]*receiver{}}
		e.given[o.ID()] = out
	}
	without := map[core.NodeKey]bool{to: true}
	for _, f := range failed {
		without[f.key] = true
		if r := out.receivers[f.key]; r != nil && r.streams == 0 && (f.code == codeLacks || f.code == codeGone) {
			delete(out.receivers, f.key)
		}
	}
	others := make([]*receiver, 0, len(out.receivers))
	for _, r := range out.receivers {
		if r.key != to {
			others = append(others, r)
		}
	}
	r := out.receivers[to]
	direct := r != nil && r.streams > 0 || len(others) < e.cfg.Fanout
	others = slices.DeleteFunc(others, func(r *receiver) bool { return without[r.key] })
	if direct || len(others) == 0 {
		if r == nil {
			r = &receiver{tree: out, key: to}
			out.receivers[to] = r
		}
		r.streams++
		r.whole = false
		return r, nil
	}
	slices.SortFunc(others, func(a, b *receiver) int {
		return cmp.Or(cmp.Compare(a.sent, b.sent), cmp.Compare(a.key.Node, b.key.Node), cmp.Compare(a.key.Incarnation, b.key.Incarnation))
	})
	others[0].sent++
	keys := make([]core.NodeKey, 0, maxNamed)
	for _, r := range others[:min(len(others), maxNamed)] {
		keys = append(keys, r.key)
	}
	return nil, keys
}

// served ends one stream to a receiver, which is remembered if it has all of the object now.
func (e *Engine) served(r *receiver, whole bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r.streams--
	r.whole = r.whole || whole
	if r.streams == 0 && !r.whole && r.tree.receivers[r.key] == r {
		delete(r.tree.receivers, r.key)
		e.tidy(r.tree)
	}
}

// forgetReceiver is for a peer that is gone. mu is held.
func (e *Engine) forgetReceiver(k core.NodeKey) {
	for _, out := range e.given {
		if out.receivers[k] != nil {
			delete(out.receivers, k)
			e.tidy(out)
		}
	}
}

func (e *Engine) tidy(out *copyTree) {
	if len(out.receivers) == 0 && e.given[out.object.ID()] == out {
		delete(e.given, out.object.ID())
	}
}

// forgetAbsent removes the objects that this node no longer has, once there may be as many of them as of the others:
// a node that gives one object after another keeps at most twice as many trees as it has objects. mu is held.
func (e *Engine) forgetAbsent() {
	if len(e.given) < max(minForget, e.forgetAt) {
		return
	}
	for id := range e.given {
		if e.cfg.Store.Lookup(id) == nil {
			delete(e.given, id)
		}
	}
	e.forgetAt = 2 * len(e.given)
}

// forgetObject is called for an object that this node no longer has.
func (e *Engine) forgetObject(id raysys.TaskID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.given, id)
}

// Fetch returns an object, which it pulls from the sources if it is not in the store. The object is pinned once: the
// caller calls Unpin. Callers that want the same object at the same time share one transfer, to which the sources of
// each are added; it ends with the ctx of the last one.
//
// want names the object; a Nonce of 0 takes whichever version the first source has, else it is that version or an
// error.
//
// It fails with raysys.ErrObjectLost when no source has the object, and says what each of them answered; with
// raysys.ErrUnreachable when one that may have it lives, but does not give it; with raysys.ErrStoreFull when this node
// has no room; and with the cause of ctx.
func (e *Engine) Fetch(ctx context.Context, want objectstore.Version, sources Sources, form objectstore.Form) (*objectstore.Object, error) {
	o, err := e.fetch(ctx, want, sources, form)
	if err != nil {
		return nil, fmt.Errorf("fetch object %s: %w", want.ID, err)
	}
	return o, nil
}

func (e *Engine) fetch(ctx context.Context, want objectstore.Version, sources Sources, form objectstore.Form) (*objectstore.Object, error) {
	if want.ID.IsZero() {
		return nil, raysys.ErrInvalidRef
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	f, o, err := e.board(ctx, want, form)
	switch {
	case err != nil:
		return nil, err
	case o != nil:
		return checked(ctx, o, want)
	}
	f.join(sources)
	select {
	case <-f.done:
	case <-ctx.Done():
	}
	return f.leave(ctx, want)
}

// board returns the flight of an object, which it begins if need be, with one more waiter; or the object that is here,
// pinned.
func (e *Engine) board(ctx context.Context, want objectstore.Version, form objectstore.Form) (*flight, *objectstore.Object, error) {
	for {
		e.mu.Lock()
		f := e.flights[want.ID]
		if f == nil {
			if o := e.cfg.Store.Take(want.ID); o != nil {
				e.mu.Unlock()
				return nil, o, nil
			}
			f = newFlight(e, want, form)
			if !e.runLocked(f.run) {
				e.mu.Unlock()
				return nil, nil, raysys.ErrClosed
			}
			e.flights[want.ID] = f
			if !e.begun {
				e.begun = true
				for range verifiers {
					e.checks.Go(e.verify)
				}
			}
			e.counts.flights.Add(1)
		}
		if !f.ending {
			f.waiters++
			e.mu.Unlock()
			return f, nil, nil
		}
		e.mu.Unlock()
		select { // until the store has forgotten what came of it
		case <-f.done:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}

// room is where chunks for the stream's peer wait to be written, whatever object they are of; nil when the stream is
// over.
func (e *Engine) room(s *stream) chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.streams[s.id] != s {
		return nil
	}
	r := e.sending[s.id.peer]
	if r == nil {
		r = make(chan struct{}, outstanding)
		e.sending[s.id.peer] = r
	}
	return r
}

// Land returns the place for the body of a chunk; nil when the chunk is not wanted any more. It does not block.
func (e *Engine) Land(from core.NodeKey, head []byte, size int) Landing {
	slot, i, sum, err := readHead(head)
	if err != nil {
		return nil // it is skipped, and asked for again
	}
	d := e.feed(from, slot)
	if d == nil {
		return nil
	}
	return d.flight.landOne(d, slot, i, size, sum)
}

// verify settles what has come and goes to a disk, until Close: other frames do not wait for the disk. What goes to
// memory is verified by the reader that brought it, which has it in its cache.
func (e *Engine) verify() {
	for l := range e.came {
		l.settle(nil)
	}
}

// Stats returns the counts.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	s := Stats{Flights: len(e.flights), Feeds: len(e.feeds), Streams: len(e.streams)}
	e.mu.Unlock()
	c := &e.counts
	s.Fetched, s.Failed, s.Mapped = c.flights.Load(), c.failed.Load(), c.mapped.Load()
	s.ChunksIn, s.BytesIn, s.ChunksOut, s.BytesOut = c.chunksIn.Load(), c.bytesIn.Load(), c.chunksOut.Load(), c.bytesOut.Load()
	s.Corrupt, s.Struck, s.Resumed, s.Stalled = c.corrupt.Load(), c.struck.Load(), c.resumed.Load(), c.stalled.Load()
	s.Redirects, s.Returned, s.SentOn, s.Shared = c.redirects.Load(), c.returned.Load(), c.sentOn.Load(), c.shared.Load()
	return s
}

func (e *Engine) onPull(from Peer, p *pull) {
	id := streamKey{keyOf(from), p.slot}
	e.mu.Lock()
	if s := e.streams[id]; s != nil {
		e.mu.Unlock()
		s.change(func() { s.pull, s.repeat = *p, true })
		return
	}
	c := codeBusy
	if len(e.streams) < maxStreams {
		s := &stream{e: e, peer: from, id: id, wakes: make(chan struct{}, 1), pull: *p, repeat: true}
		s.ctx, s.cancel = context.WithCancelCause(e.life)
		if e.runLocked(s.run) {
			e.streams[id] = s
			e.mu.Unlock()
			return
		}
		s.cancel(raysys.ErrClosed)
		c = codeClosed
	}
	e.mu.Unlock()
	send(from, &pulled{slot: p.slot, status: statusRefused, code: c})
}

func (e *Engine) stream(from core.NodeKey, slot uint64) *stream {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.streams[streamKey{from, slot}]
}

// onAsk is an error only where no receiver of this protocol could have sent it.
func (e *Engine) onAsk(from core.NodeKey, slot uint64, spans []span) error {
	s := e.stream(from, slot)
	if s == nil {
		return nil // it is over, and the receiver will learn of it
	}
	tooMany := false
	s.change(func() {
		for _, sp := range spans {
			s.asked += sp.n
		}
		if tooMany = s.asked > 2*maxAsked; !tooMany { // chunks asked for twice count twice
			s.spans = append(s.spans, spans...)
		}
	})
	if tooMany {
		return wire.ErrCorrupt
	}
	return nil
}

func (e *Engine) onEnd(from core.NodeKey, slot uint64, whole bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s := e.streams[streamKey{from, slot}]; s != nil {
		s.change(func() { s.whole = whole })
		e.dropStream(s)
	}
}

// dropStream ends a stream, with mu held: no frame finds it any more.
func (e *Engine) dropStream(s *stream) {
	delete(e.streams, s.id)
	s.cancel(errHungUp)
}

// Stats counts what an engine did since it began, and has under way.
type Stats struct {
	Flights, Feeds, Streams int // now

	Fetched uint64 // transfers begun
	Failed  uint64 // that ended in an error
	Mapped  uint64 // objects that were mapped instead

	ChunksIn, BytesIn   uint64 // received, verified and stored
	ChunksOut, BytesOut uint64 // handed to the link
	Corrupt             uint64 // chunks whose checksum was wrong

	Struck    uint64 // sources that gave no more
	Resumed   uint64 // conversations that went on after a link broke
	Stalled   uint64 // times that a source stood still
	Redirects uint64 // times that this node went where a source sent it
	Returned  uint64 // and came back from there
	SentOn    uint64 // receivers that this node sent to others
	Shared    uint64 // receivers of the same machine that map the segment
}

type counters struct {
	flights, failed, mapped                                       atomic.Uint64
	chunksIn, bytesIn, chunksOut, bytesOut, corrupt               atomic.Uint64
	struck, resumed, stalled, redirects, returned, sentOn, shared atomic.Uint64
}

func (c *counters) received(n int) {
	c.chunksIn.Add(1)
	c.bytesIn.Add(uint64(n))
}

func (c *counters) gave(n int) {
	c.chunksOut.Add(1)
	c.bytesOut.Add(uint64(n))
}
