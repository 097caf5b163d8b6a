package link

import (
	"context"
	"fmt"
	"time"

	"github.com/raysys/raysys"
)

// slot is where the connections of one pair of nodes meet. Both may dial at the same time, and again while the other
// has not noticed that the last session is over; still there must be one session, the same on both sides. So one node
// of the pair decides, the elder (the lower name): it takes a connection if it has no session, or if the other says
// that the session it has is gone, and rejects it as a duplicate otherwise. The younger follows: a session that the
// elder confirms replaces its own. If it is rejected because of a session that it does not have, it dials again and
// reports that session as gone.
type slot struct {
	node raysys.NodeID
	turn chan struct{} // of capacity 1, full while a goroutine decides or puts a session in place

	// Guarded by the link's mu.
	users   int
	peer    *Peer
	last    *Peer                    // went down; Down has not returned
	dialing *dialing                 // nil when no goroutine dials
	relying *dialing                 // the same, through a relay
	waiting map[uint64]chan struct{} // sessions that the elder has not confirmed yet; closed when that is decided
}

// hold returns the slot of a node, which stays until it is let go as often.
func (l *Link) hold(node raysys.NodeID) *slot {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.holdLocked(node)
}

func (l *Link) holdLocked(node raysys.NodeID) *slot {
	s := l.slots[node]
	if s == nil {
		s = &slot{node: node, turn: make(chan struct{}, 1), waiting: map[uint64]chan struct{}{}}
		l.slots[node] = s
	}
	s.users++
	return s
}

func (l *Link) letGo(s *slot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.letGoLocked(s)
}

func (l *Link) letGoLocked(s *slot) {
	s.users--
	if s.users == 0 {
		delete(l.slots, s.node)
	}
}

func (s *slot) take(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for another connection with %s: %w", s.node, context.Cause(ctx))
	}
}

func (s *slot) give() { <-s.turn }

// await notes a session that the elder has yet to confirm, until the returned function is called.
func (l *Link) await(s *slot, session uint64) func() {
	decided := make(chan struct{})
	l.mu.Lock()
	s.waiting[session] = decided
	l.mu.Unlock()
	return func() {
		l.mu.Lock()
		delete(s.waiting, session)
		l.mu.Unlock()
		close(decided)
	}
}

// claim is the elder's decision about a connection, made with the turn taken. It returns nil when the connection may
// become the session: an earlier session is over then.
func (l *Link) claim(s *slot, h *hello, relayed bool) *Rejection {
	l.mu.Lock()
	old := s.peer
	l.mu.Unlock()
	if old == nil {
		return nil
	}
	better := old.relayed && !relayed
	if old.id.Incarnation == h.id.Incarnation && old.session != h.gone && !better {
		r := reject(CodeDuplicate, "%s has session %x with incarnation %d of %s", l.cfg.Self().Node, old.session, h.id.Incarnation, s.node)
		r.session = old.session
		return r
	}
	l.replace(old, h, relayed)
	return nil
}

// follow is the younger's side, about a connection that the elder confirmed as its order-th session.
func (l *Link) follow(s *slot, h *hello, order uint64, relayed bool) *Rejection {
	l.mu.Lock()
	old := s.peer
	l.mu.Unlock()
	if old == nil {
		return nil
	}
	if old.id.Incarnation == h.id.Incarnation && order < old.order {
		return reject(CodeDuplicate, "a later session with %s took this one's place", s.node)
	}
	l.replace(old, h, relayed)
	return nil
}

// replace ends a session in favour of another, which begins when the user knows (see install).
func (l *Link) replace(old *Peer, h *hello, relayed bool) {
	why := "by a new one"
	switch {
	case old.id.Incarnation != h.id.Incarnation:
		why = fmt.Sprintf("by one of incarnation %d", h.id.Incarnation)
	case old.relayed && !relayed:
		why = "by a direct one"
	}
	old.end(fmt.Errorf("%w %s", ErrReplaced, why), "session replaced "+why)
}

// install puts a session in place, with the turn taken, and lets it begin.
func (l *Link) install(s *slot, p *Peer) error {
	p.conn.SetDeadline(time.Time{})
	l.mu.Lock()
	for s.peer != nil || s.last != nil { // both over, and the turn keeps others from coming
		before := s.peer
		if before == nil {
			before = s.last
		}
		l.mu.Unlock()
		<-before.done
		l.mu.Lock()
	}
	if l.state != stateOpen {
		l.mu.Unlock()
		p.conn.Close()
		return ErrClosed
	}
	l.peers[p] = struct{}{}
	l.shakenLocked(p.conn) // it is the session's from here on
	s.peer = p
	s.users++
	l.running.Add(2) // its reader and its writer
	l.mu.Unlock()
	if l.cfg.Up != nil {
		l.cfg.Up(p)
	}
	p.start()
	l.mu.Lock()
	if d := s.dialing; d != nil && !p.relayed {
		s.dialing = nil
		d.finish(p, nil)
	}
	if d := s.relying; d != nil {
		s.relying = nil
		d.finish(p, nil)
	}
	l.mu.Unlock()
	return nil
}

// leave takes a session that has just gone down out of its place.
func (l *Link) leave(p *Peer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.slot.peer == p {
		p.slot.peer, p.slot.last = nil, p
	}
}

// left ends what leave began, or is about to: the user knows.
func (l *Link) left(p *Peer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.slot.peer == p {
		p.slot.peer = nil
	}
	delete(l.peers, p)
	if p.slot.last == p {
		p.slot.last = nil
	}
	l.letGoLocked(p.slot)
	close(p.done)
}
