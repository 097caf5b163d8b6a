package grainengine

import (
	"context"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/wire"
)

// OpenAt reports whether the peer has not answered the call with this number.
func OpenAt(e *Engine, p wire.Peer, slot uint64) bool {
	_, ok := e.peer(p).sent.Look(slot)
	return ok
}

// Queued returns how many calls wait in the mailbox of a grain's activation here.
func Queued(e *Engine, id graindir.ID) int {
	var n int
	e.kinds.Range(func(_, v any) bool {
		if k := v.(*boundKind); k.def.name == id.Kind {
			if a, _ := k.lookup(id.Key); a != nil {
				n = a.UserMessageCount()
			}
		}
		return true
	})
	return n
}

// Told reports whether a grain's activation here has been told something that comes before its next call, as that it is
// to stop, or has stopped.
func Told(e *Engine, id graindir.ID) (told bool) {
	e.kinds.Range(func(_, v any) bool {
		if k := v.(*boundKind); k.def.name == id.Kind {
			a, _ := k.lookup(id.Key)
			told = a == nil || a.sysCount.Load() > 0
		}
		return true
	})
	return told
}

// TokenOf returns the token of the activation whose turn or hook runs under ctx.
func TokenOf(ctx context.Context) graindir.Token {
	t, _, err := core.TurnOf(ctx)
	if err != nil {
		return graindir.Token{}
	}
	a, ok := t.Attached().(*activation)
	if !ok || a.tenure == nil {
		return graindir.Token{}
	}
	return a.tenure.token
}

// Forgotten returns how many replies of a durable grain's activation here may go, and are stored.
func Forgotten(e *Engine, id graindir.ID) (n int) {
	e.kinds.Range(func(_, v any) bool {
		if k := v.(*boundKind); k.def.name == id.Kind {
			if a, _ := k.lookup(id.Key); a != nil {
				d := a.tenure.durable
				d.mu.Lock()
				n = len(d.replies.Forget)
				d.mu.Unlock()
			}
		}
		return true
	})
	return n
}

// Pushed returns how many arguments of the peer came before their calls, their bytes, and how many calls wait for theirs or have
// ended before it came.
func Pushed(e *Engine, wp wire.Peer) (early, bytes, due int) {
	p := e.peer(wp)
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.pushed.early), p.pushed.bytes, len(p.pushed.due)
}

// Notes returns how many calls have their replies, and have not told so yet.
func Notes(e *Engine) int {
	e.forgets.mu.Lock()
	defer e.forgets.mu.Unlock()
	return len(e.forgets.soon)
}
