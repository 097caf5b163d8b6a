package grainengine

import (
	"fmt"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/wire"
)

// The activation of a durable grain keeps the reply to a call until its caller cannot make the call again: a driver has the
// reply; of any other turn the outermost task above it has its outcome at the driver that submitted it (core.Finality). The
// caller's node says so in KindCallForget, of many calls at a time. A frame that is lost, or finds no activation, leaves a reply behind:
// one of a driver goes when it is asked for (open.go), the others after grains.KeepReplies.

// forgetSoon is the time between that and the frame.
const forgetSoon = 20 * time.Millisecond

// maxForgets bounds the calls in one frame.
const maxForgets = 64

// forgetting is a call whose reply is not needed any more, or will not be when its turn is final.
type forgetting struct {
	at   *peer // that has the grain; nil: this node
	kind *boundKind
	by   *core.Entry // the method
	key  string
	call raysys.TaskID
}

// forgets are the calls whose replies this node will not ask for.
type forgets struct {
	mu    sync.Mutex // guards the rest
	soon  []*forgetting
	armed bool // the alarm
}

// replied notes that a call of this node to a durable grain has its reply. It is called before the call settles: its turn may
// end by that.
func (k *boundKind) replied(c *call, key string, at *peer) {
	if k.def.Durable && !c.isReadOnly() && c.named() == "" {
		if c.byDriver() {
			k.engine.open.leave(c.Future.RunID())
		}
		f := &forgetting{at: at, kind: k, by: c.facts().entry, key: key, call: c.Future.RunID()}
		c.Future.Up().WhenFinal(f)
	}
}

// Final implements core.Finality.
func (f *forgetting) Final() {
	e := f.kind.engine
	l := &e.forgets
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.soon = append(l.soon, f); len(l.soon) == maxForgets {
		soon := l.soon
		l.soon = nil
		e.cfg.Pool.Go(forgetSet{soon})
		return
	}
	if !l.armed {
		l.armed = true
		rt := e.cfg.Hooks.Runtime()
		rt.SetAlarm(&core.Alarm{At: rt.Now() + int64(forgetSoon), Ring: e.forgetSoon})
	}
}

// Dropped implements core.Finality: the reply stays for grains.KeepReplies.
func (f *forgetting) Dropped() {}

func (e *Engine) forgetSoon() {
	l := &e.forgets
	l.mu.Lock()
	soon := l.soon
	l.soon, l.armed = nil, false
	l.mu.Unlock()
	e.cfg.Pool.Go(forgetSet{soon})
}

// forgetSet is a list of calls whose replies may go.
type forgetSet struct{ list []*forgetting }

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

// forget drops the reply to a call, if the grain is active here; the zero id ends the answer to a question.
func (k *boundKind) forget(key string, call raysys.TaskID) {
	a, _ := k.lookup(key)
	switch {
	case a == nil, a.tenure == nil, a.tenure.durable == nil:
	case call.IsZero():
		a.tenure.durable.answered()
	default:
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
		m, ok := entry.Impl.(*methodVariants)
		if !ok {
			return fmt.Errorf("%w: %s is no method", wire.ErrCorrupt, entry)
		}
		p.engine.bind(m.of()).forget(string(key), call)
	}
	return r.Err()
}
