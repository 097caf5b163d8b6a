package grainengine

import (
	"fmt"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/wire"
)

// The activation of a durable grain keeps the reply to a call until its caller cannot make the call again: a driver
// that has the reply; or a task or a grain whose turn is over, a while after that, when its result has arrived. The
// caller's node says so in KindCallForget, of many calls at a time. A frame that is lost leaves a reply behind, which
// goes with the driver's node, or after grains.KeepReplies.

// The times between a call's end and the frame.
const (
	forgetSoon  = 20 * time.Millisecond
	forgetLater = 2 * time.Second
)

// maxForgets bounds the calls in one frame, and maxForgetting those that wait for their turn to be over: of further ones
// the replies stay for the time of grains.KeepReplies.
const (
	maxForgets    = 64
	maxForgetting = 1 << 16
)

// forgetting is a call whose reply is not needed any more, or will not be when its turn is over.
type forgetting struct {
	turn *core.Turn // that made the call; nil: a driver
	over bool       // the turn was over at the last look
	at   *peer      // that has the grain; nil: this node
	kind *boundKind
	by   *core.Entry // the method
	key  string
	call raysys.TaskID
}

// forgets are the calls whose replies this node will not ask for.
type forgets struct {
	mu    sync.Mutex // guards the rest
	soon  []forgetting
	later []forgetting
	armed [2]bool // the alarms
}

// replied notes that a call of this node to a durable grain has its reply.
func (k *boundKind) replied(c anyCall, key string, at *peer) {
	if !k.def.Durable || c.isReadOnly() || c.named() != "" {
		return
	}
	f := forgetting{at: at, kind: k, by: c.facts().entry, key: key, call: c.future().RunID()}
	if t := c.future().Up(); t.Kind() != core.TurnRoot {
		f.turn = t.Base()
	}
	e := k.engine
	l := &e.forgets
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.turn != nil {
		if len(l.later) < maxForgetting {
			l.later = append(l.later, f)
		}
		e.armForgets(1, forgetLater, e.forgetLater)
		return
	}
	if l.soon = append(l.soon, f); len(l.soon) == maxForgets {
		soon := l.soon
		l.soon = nil
		e.cfg.Pool.Go(forgetSet{soon})
		return
	}
	e.armForgets(0, forgetSoon, e.forgetSoon)
}

// armForgets sets an alarm unless it is set. The list is locked.
func (e *Engine) armForgets(i int, after time.Duration, f func()) {
	if e.forgets.armed[i] {
		return
	}
	e.forgets.armed[i] = true
	rt := e.cfg.Hooks.Runtime()
	rt.SetAlarm(&core.Alarm{At: rt.Now() + int64(after), Ring: f})
}

func (e *Engine) forgetSoon() {
	l := &e.forgets
	l.mu.Lock()
	soon := l.soon
	l.soon, l.armed[0] = nil, false
	l.mu.Unlock()
	e.cfg.Pool.Go(forgetSet{soon})
}

// forgetLater takes the calls whose turns were over at the last look. The calls of one that failed are not forgotten:
// its task may run again.
func (e *Engine) forgetLater() {
	l := &e.forgets
	var now []forgetting
	l.mu.Lock()
	l.armed[1] = false
	kept := l.later[:0]
	for _, f := range l.later {
		switch {
		case f.turn.Failed() || f.turn.Cancelled() != nil:
		case f.over:
			now = append(now, f)
		default:
			f.over = f.turn.Ended()
			kept = append(kept, f)
		}
	}
	clear(l.later[len(kept):])
	l.later = kept
	if len(kept) > 0 {
		e.armForgets(1, forgetLater, e.forgetLater)
	}
	l.mu.Unlock()
	e.cfg.Pool.Go(forgetSet{now})
}

// forgetSet is a list of calls whose replies may go.
type forgetSet struct{ list []forgetting }

// Run implements goroutines.Work.
func (s forgetSet) Run() {
	frames := map[*peer][]byte{}
	for _, f := range s.list {
		if f.at == nil {
			f.kind.forget(f.key, f.call)
			continue
		}
		if n, ok := f.at.Runs(f.by); ok {
			frames[f.at] = appendForget(frames[f.at], n, f.key, f.call)
		}
		if len(frames[f.at]) > wire.InlineLimit/2 {
			_ = f.at.Send(wire.Control, wire.KindCallForget, frames[f.at]) // one that is lost leaves a reply behind
			delete(frames, f.at)
		}
	}
	for p, frame := range frames {
		_ = p.Send(wire.Control, wire.KindCallForget, frame)
	}
}

func appendForget(dst []byte, method uint32, key string, call raysys.TaskID) []byte {
	return wire.AppendID(wire.AppendBytes(wire.AppendUvarint(dst, uint64(method)), key), call)
}

// forget drops the reply to a call, if the grain is active here.
func (k *boundKind) forget(key string, call raysys.TaskID) {
	if a, _ := k.lookup(key); a != nil && a.tenure != nil && a.tenure.durable != nil {
		a.tenure.durable.release(call)
	}
}

// forgotten handles KindCallForget.
func (p *peer) forgotten(r *wire.Reader) error {
	for r.Len() > 0 {
		method, key, call := r.Uint32(), r.Bytes(), r.ID()
		if err := r.Err(); err != nil {
			return err
		}
		entry := p.Entry(method)
		if entry == nil {
			continue // the peer took another incarnation's number
		}
		m, ok := entry.Impl.(inboundMethod)
		if !ok {
			return fmt.Errorf("%w: %s is no method", wire.ErrCorrupt, entry)
		}
		p.engine.bind(m.of()).forget(string(key), call)
	}
	return r.Err()
}
