package taskengine

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/wire"
)

// frames are the buffers in which answers are made. Peers copy what they are given to Send.
var frames = sync.Pool{New: func() any { return new([]byte) }}

// repliesPerLoad bounds the answers that a peer gets without this node's load.
const repliesPerLoad = 32

// handing passes the cork of an answer on to the worker that ran the inbound task. The worker settles the task, and
// flushes its answers when it finds no more tasks: the peer's writer sleeps in between. Another goroutine may settle
// the task at the same moment, and then answers by itself.
//
//	0 ──► handingOpen ──► handingKept ──► 0
//	 the function         the peer is     the worker
//	 has returned         corked          took it over
type handing struct{ state atomic.Int32 }

const (
	handingOpen int32 = 1 + iota
	handingKept
)

// open is called by the worker before it settles the inbound task.
func (h *handing) open() { h.state.Store(handingOpen) }

func (h *handing) opened() bool { return h.state.Load() == handingOpen }

// keep is called by the goroutine that answers and has corked the peer: true leaves the cork to the worker.
func (h *handing) keep() bool { return h.state.CompareAndSwap(handingOpen, handingKept) }

// take is called by the worker after that, and reports whether there is a cork to take back.
func (h *handing) take() bool { return h.state.Load() != 0 && h.state.Swap(0) == handingKept }

// lateReplies are answers for which the peer's link had no room. The tasks that the peer may have here bound their
// number.
type lateReplies struct {
	some atomic.Bool // there are frames

	mu     sync.Mutex // guards the rest
	frames [][]byte
	alarm  core.Alarm
}

func (l *lateReplies) waiting() bool { return l.some.Load() }

func (l *lateReplies) add(x *exchange, p *peer, frame []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.gone.Load() {
		return
	}
	l.frames = append(l.frames, append([]byte(nil), frame...))
	l.some.Store(true)
	if len(l.frames) == 1 {
		l.again(x, p)
	}
}

// again sets the alarm; the caller holds mu.
func (l *lateReplies) again(x *exchange, p *peer) {
	l.alarm.At = x.rt.Now() + retryPause
	l.alarm.Ring = func() { l.send(x, p) }
	x.rt.SetAlarm(&l.alarm)
}

func (l *lateReplies) send(x *exchange, p *peer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.frames) > 0 {
		if err := x.trySend(p, l.frames[0]); errors.Is(err, raysys.ErrOverloaded) && !p.gone.Load() {
			l.again(x, p)
			return
		}
		l.frames = l.frames[1:]
	}
	l.some.Store(false)
}

// readers spare each frame an allocation.
var readers = sync.Pool{New: func() any { return new(wire.Reader) }}

func putReader(r *wire.Reader) {
	*r = wire.Reader{}
	readers.Put(r)
}

// resultBatch are results that are taken in together: locks and counters cost as much for many as for one.
type resultBatch struct {
	n       int
	results [resultBatchSize]wire.Reader
	slots   [resultBatchSize]uint64
	flights [resultBatchSize]flight
	found   [resultBatchSize]bool
	waits   [resultBatchSize]bool
}

const resultBatchSize = 32

var resultBatches = sync.Pool{New: func() any { return new(resultBatch) }}
