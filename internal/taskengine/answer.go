package taskengine

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/loadreport"
	"github.com/raysys/raysys/internal/taskwire"
	"github.com/raysys/raysys/internal/wire"
)

// answerError answers a task that cannot be run with why.
func (x *exchange) answerError(p *peer, slot uint64, err error) {
	x.answering.Add(1)
	x.answer(p, slot, false, func([]byte) ([]byte, error) { return nil, err })
	x.answering.Add(-1)
	x.e.checkDrained()
}

// giveBackSlots gives tasks back that were not taken in.
func (x *exchange) giveBackSlots(p *peer, slots []uint64) {
	frame := loadreport.AppendLoad([]byte{taskwire.ResultLoad}, x.e.Load())
	for _, slot := range slots {
		frame = append(taskwire.AppendSlot(frame, slot), taskwire.ResultGivenBack)
	}
	x.reply(p, frame, nil)
	x.flush()
}

// frames are the buffers in which answers are made. Peers copy what they are given to Send.
var frames = sync.Pool{New: func() any { return new([]byte) }}

// repliesPerLoad bounds the answers that a peer gets without this node's load.
const repliesPerLoad = 32

// answer sends the owner of a task its outcome. waits is for resultWaits. body appends status and value, or returns an error in
// their place.
func (x *exchange) answer(p *peer, slot uint64, waits bool, body func([]byte) ([]byte, error)) {
	buf := x.beginAnswer(p, slot, waits)
	out, err := body(*buf)
	if err != nil {
		out = wire.AppendErrorTo(append(*buf, taskwire.ResultError), p.Peer, err)
	}
	x.endAnswer(p, buf, out, nil)
}

// beginAnswer returns a buffer with what comes before status and value.
func (x *exchange) beginAnswer(p *peer, slot uint64, waits bool) *[]byte {
	buf := frames.Get().(*[]byte)
	flags := byte(0)
	if waits {
		flags = taskwire.ResultWaits
	}
	dst := (*buf)[:0]
	if x.sendsLoad(p) {
		dst = loadreport.AppendLoad(append(dst, flags|taskwire.ResultLoad), x.e.Load())
	} else {
		dst = append(dst, flags)
	}
	*buf = taskwire.AppendSlot(dst, slot)
	return buf
}

// endAnswer sends out, which may lie in buf.
func (x *exchange) endAnswer(p *peer, buf *[]byte, out []byte, h *handing) {
	x.reply(p, out, h)
	if cap(out) <= 2*wire.InlineLimit {
		*buf = out
		frames.Put(buf)
	}
}

// sendsLoad reports whether the next answer brings the load: when the mean has changed so much that the peer's window
// is wrong, and now and then.
func (x *exchange) sendsLoad(p *peer) bool {
	mean, told := int64(x.means.mean()), p.meanSent.Load()
	if n := p.repliesSinceLoad.Add(1); n%repliesPerLoad != 0 && told != 0 && mean < told*2 && mean > told/2 {
		return false
	}
	p.meanSent.Store(mean)
	return true
}

// reply sends an answer: where h is not nil the worker that waits for it uncorks the peer. Answers are never dropped
// while the peer lives: the owner's future rests on them.
func (x *exchange) reply(p *peer, frame []byte, h *handing) {
	if p.late.waiting() {
		p.late.add(x, p, frame)
		return
	}
	corked := h != nil && len(frame) <= wire.InlineLimit && h.opened()
	if corked {
		p.Cork()
		corked = !h.keep()
	}
	err := x.trySend(p, frame)
	if corked {
		p.Uncork(false)
	}
	if errors.Is(err, raysys.ErrOverloaded) {
		p.late.add(x, p, frame)
	}
}

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

func (x *exchange) trySend(p *peer, frame []byte) error {
	if len(frame) > wire.InlineLimit {
		return p.SendLarge(wire.KindTaskResult, append([]byte(nil), frame...))
	}
	err := p.Send(wire.Replies, wire.KindTaskResult, frame)
	if err == nil {
		x.sent(p)
	}
	return err
}

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

// drop drops the answers that wait for a peer that is gone.
func (p *peer) drop(x *exchange) {
	p.gone.Store(true)
	p.waiting.end()
	p.late.mu.Lock()
	x.rt.ClearAlarm(&p.late.alarm)
	p.late.frames = nil
	p.late.some.Store(false)
	p.late.mu.Unlock()
}
