package transfer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
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
