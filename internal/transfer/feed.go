package transfer

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/wire"
)

// feed is a flight's conversation with one node at a time: with its first source, and with the nodes to which that
// source sends it.
type feed struct {
	flight *flight
	wakes  chan struct{} // of capacity 1: look at the inbox
	heard  atomic.Int64  // when something came last, as the engine's now

	// The feed's own goroutine alone writes these: the key with the engine's mu and the flight's, the slot with the
	// engine's.
	key  core.NodeKey
	slot uint64

	// Of the feed's own goroutine.
	root    core.NodeKey // the node that named key; zero when none did
	sent    bool         // key was named by root, and serves while it still receives
	failed  []failure    // nodes that root must not name again
	noShare bool         // mapping did not work

	// Guarded by the flight's mu.
	peer    Peer // of the conversation; nil between two
	ready   bool // it has the version: it may be asked
	slow    bool // it stands still
	stalls  int  // in a row
	got     int  // chunks
	pending []int
	landing *landed

	mu    sync.Mutex // guards inbox
	inbox inbox
}

// inbox is what the feed's goroutine has to look at.
type inbox struct {
	answer *pulled
	wrong  error // a chunk was
	down   error
}

func newFeed(f *flight, k core.NodeKey) *feed {
	return &feed{flight: f, wakes: make(chan struct{}, 1), key: k}
}

// tell changes the inbox. It does not block.
func (d *feed) tell(change func(*inbox)) {
	d.mu.Lock()
	change(&d.inbox)
	d.mu.Unlock()
	select {
	case d.wakes <- struct{}{}:
	default:
	}
}

func (d *feed) read() inbox {
	d.mu.Lock()
	defer d.mu.Unlock()
	in := d.inbox
	d.inbox = inbox{}
	return in
}

func (d *feed) heardNow() { d.heard.Store(int64(d.flight.e.now())) }

// The ends of a conversation, beside errors.
var (
	errMoved = errors.New("sent elsewhere") // key is another now
	errOver  = errors.New("the transfer is over")
)

const (
	maxHops  = 64 // from source to source, and back
	maxDowns = 3  // links that broke in a row without a chunk over them
)

// sourceError is why a source gives nothing.
type sourceError struct {
	key  core.NodeKey
	code code
	err  error // its answer, or its fault
}

func (e *sourceError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("%s: %s", e.key, e.code)
	}
	return fmt.Sprintf("%s: %s: %v", e.key, e.code, e.err)
}

func (e *sourceError) Unwrap() error { return e.err }

// talk goes from conversation to conversation until there is no more to say. It returns nil when the flight is over.
func (d *feed) talk() error {
	downs, got := 0, 0
	for hop := 0; ; {
		err := d.converse()
		if n := d.chunks(); n > got {
			got, downs = n, 0
		}
		var gone *sourceError
		switch {
		case d.flight.ctx.Err() != nil || errors.Is(err, errOver):
			return nil
		case errors.Is(err, errMoved):
		case errors.Is(err, errLinkDown) && d.root == (core.NodeKey{}):
			if downs++; downs > maxDowns {
				return &sourceError{d.key, codeGone, err}
			}
			d.flight.e.counts.resumed.Add(1)
			continue
		case errors.Is(err, errLinkDown):
			err = &sourceError{d.key, codeGone, err}
			fallthrough
		default:
			if d.root == (core.NodeKey{}) {
				return err
			}
			c := codeGone
			if errors.As(err, &gone) {
				c = gone.code
			}
			d.backToRoot(c)
		}
		if hop++; hop > maxHops {
			return &sourceError{d.key, codeOther, fmt.Errorf("the nodes send each other from one to the next: %w", err)}
		}
	}
}

func (d *feed) chunks() int {
	d.flight.mu.Lock()
	defer d.flight.mu.Unlock()
	return d.got
}

// backToRoot turns from a node that did not do to the source that named it.
func (d *feed) backToRoot(c code) {
	d.failed = append(d.failed, failure{d.key, c})
	if len(d.failed) > maxFailed {
		d.failed = d.failed[1:]
	}
	d.setKey(d.root)
	d.root, d.sent = core.NodeKey{}, false
	d.flight.e.counts.returned.Add(1)
}

const maxFailed = 64

func (d *feed) setKey(k core.NodeKey) {
	d.flight.e.mu.Lock()
	d.flight.mu.Lock()
	d.key = k
	d.flight.mu.Unlock()
	d.flight.e.mu.Unlock()
}

// converse connects, pulls and takes what comes, and returns how it ended.
func (d *feed) converse() error {
	f := d.flight
	peer, err := f.e.cfg.Link.Connect(f.ctx, d.key)
	if err != nil {
		return &sourceError{d.key, codeGone, err}
	}
	d.begin(peer)
	defer d.hangUp(peer)
	if err := d.pull(peer); err != nil {
		return err
	}
	timer := time.NewTimer(f.e.cfg.Stall)
	defer timer.Stop()
	for {
		select {
		case <-f.ctx.Done():
			return errOver
		case <-timer.C:
			wait, err := d.late(peer)
			if err != nil {
				return err
			}
			timer.Reset(wait)
		case <-d.wakes:
			if err := d.takeInbox(peer); err != nil {
				return err
			}
		}
	}
}

// begin opens a slot under which the answers come.
func (d *feed) begin(peer Peer) {
	f := d.flight
	d.read() // a late frame of another conversation
	d.heardNow()
	f.e.mu.Lock()
	f.mu.Lock()
	f.e.slots++
	d.slot = f.e.slots
	f.e.feeds[d.slot] = d
	d.peer, d.ready, d.slow, d.stalls = peer, false, false, 0
	f.mu.Unlock()
	f.e.mu.Unlock()
}

// hangUp ends the conversation on both sides; the chunks that it was asked for are open again.
func (d *feed) hangUp(peer Peer) {
	f := d.flight
	f.e.mu.Lock()
	delete(f.e.feeds, d.slot)
	f.e.mu.Unlock()
	f.mu.Lock()
	f.cargo.release(d)
	l := d.landing
	d.peer, d.ready = nil, false
	whole := f.decided && f.judgment == nil
	f.mu.Unlock()
	if l != nil {
		peer.Abandon(l)
	}
	// To a link that is down it need not be said.
	_ = peer.Send(wire.Control, wire.KindPullEnd, appendEnd(nil, d.slot, whole))
	peer.Flush()
	f.pumpAll()
}

// pull opens the conversation, or repeats that when no answer came.
func (d *feed) pull(peer Peer) error {
	f := d.flight
	p := pull{slot: d.slot, sent: d.sent, failed: d.failed}
	f.mu.Lock()
	p.want = f.want
	if f.in != nil {
		p.want = f.version
	} else if !d.noShare && f.form != objectstore.Sent {
		p.host = f.e.cfg.Host
	}
	f.mu.Unlock()
	if err := peer.Send(wire.Control, wire.KindPull, p.append(nil)); err != nil {
		return errors.Join(errLinkDown, err)
	}
	peer.Flush()
	return nil
}
