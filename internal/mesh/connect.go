package mesh

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/backoff"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/link"
)

// DialTimeout bounds one attempt to reach a node; its lease bounds all of them.
const DialTimeout = 2 * time.Second

// Peer returns the connection to an incarnation, nil when there is none now.
func (m *Mesh) Peer(k core.NodeKey) *Peer {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.peers[k.Node]; p != nil && p.key == k {
		return p
	}
	return nil
}

// Connect calls done with the connection to an incarnation, which is dialled if need be: one that is over does not count,
// though down may not have been called yet. Functions that Connect was given one after the other are called in that order. The error
// matches raysys.ErrNodeDead when the incarnation is not in the cluster, and raysys.ErrUnreachable when it cannot be reached.
func (m *Mesh) Connect(k core.NodeKey, done func(*Peer, error)) {
	if p, now, err := m.ConnectedOr(k, done); now {
		done(p, err)
	}
}

// ConnectedOr is Connect for a caller that may block once it knows: what is known now is returned, and later is not called. Else later
// is called, on a goroutine of the mesh: it must not block.
func (m *Mesh) ConnectedOr(k core.NodeKey, later func(*Peer, error)) (p *Peer, now bool, err error) {
	m.mu.Lock()
	w := m.waiting[k]
	if p := m.peers[k.Node]; w == nil && p != nil && p.key == k && p.Up() {
		m.mu.Unlock()
		return p, true, nil
	}
	err = m.cfg.Runner.Err() // under mu: End fails the callers that were entered before it
	if err == nil && w == nil && !m.Alive(k) {
		err = fmt.Errorf("%w: %s", raysys.ErrNodeDead, k)
	}
	if err != nil {
		m.mu.Unlock()
		return nil, true, err
	}
	if w == nil {
		m.waiting[k] = &waiting{list: []func(*Peer, error){later}}
		m.mu.Unlock()
		m.cfg.Runner.Run(func() { m.dial(k) })
		return nil, false, nil
	}
	w.list = append(w.list, later)
	m.mu.Unlock()
	return nil, false, nil
}

// waiting are the functions that wait for a connection.
type waiting struct {
	list    []func(*Peer, error)
	calling bool // they are being called: one that comes now is behind them
}

// arrived calls the functions that wait for the connection p to k.
func arrived(m *Mesh, k core.NodeKey, p *Peer) {
	m.mu.Lock()
	w := m.waiting[k]
	first := w != nil && !w.calling
	if first {
		w.calling = true
	}
	m.mu.Unlock()
	if first {
		callWaiting(m, k, p, w)
	}
}

// callWaiting calls the functions that wait now. Another goroutine calls those that come meanwhile, since nothing of p is read
// before this one returns. If p ends meanwhile, the rest waits for the next connection.
func callWaiting(m *Mesh, k core.NodeKey, p *Peer, w *waiting) {
	m.mu.Lock()
	for n := len(w.list); n > 0 && len(w.list) > 0 && p.Up(); n-- {
		done := w.list[0]
		w.list = w.list[1:]
		m.mu.Unlock()
		done(p, nil)
		m.mu.Lock()
	}
	var rest func()
	switch {
	case len(w.list) == 0:
		delete(m.waiting, k)
	case p.Up():
		rest = func() { callWaiting(m, k, p, w) }
	default:
		w.calling = false
		rest = func() { m.dial(k) }
	}
	m.mu.Unlock()
	if rest != nil {
		m.cfg.Runner.Run(rest)
	}
}

// unreached calls the functions that wait for a connection to k with the reason why there is none.
func unreached(m *Mesh, k core.NodeKey, err error) {
	m.mu.Lock()
	var list []func(*Peer, error)
	if w := m.waiting[k]; w != nil {
		list, w.list = w.list, nil
		if !w.calling {
			delete(m.waiting, k)
		}
	}
	m.mu.Unlock()
	for _, done := range list {
		done(nil, err)
	}
}

// dial tries to reach k until it is reached, or dead, or the attempts are used up. One that does
// not answer is relayed through a third where that is possible; one that refuses is dead or about to listen.
func (m *Mesh) dial(k core.NodeKey) {
	pause := backoff.Doubling{First: 20 * time.Millisecond, Longest: time.Second}
	for try := 0; ; try++ {
		ctx, cancel := context.WithTimeout(m.cfg.Runner.Context(), DialTimeout)
		addr, err := m.address(ctx, k)
		if errors.Is(err, raysys.ErrNodeDead) {
			cancel()
			unreached(m, k, err)
			return
		}
		if err == nil {
			_, err = m.link.Connect(ctx, k.Node, addr)
		}
		cancel()
		if errors.Is(err, link.ErrUnreachable) {
			err = m.dialVia(k, err)
		}
		switch {
		case err == nil:
			// Up has told, or the node there is another incarnation.
			if p := m.Peer(k); p != nil && p.Up() {
				arrived(m, k, p)
				return
			}
		case m.cfg.Runner.Context().Err() != nil:
			unreached(m, k, raysys.ErrClosed)
			return
		}
		m.warnOfCertificate(zap.Stringer("peer", k), err)
		m.mu.Lock()
		if m.failed[k] = err; !m.Alive(k) {
			delete(m.failed, k)
		}
		m.mu.Unlock()
		if try >= 6 {
			m.cfg.Log.Warn("node unreachable", zap.Stringer("peer", k), zap.Error(err))
			unreached(m, k, fmt.Errorf("%w: %s: %w", raysys.ErrUnreachable, k, err))
			return
		}
		if !pause.Wait(m.cfg.Runner.Context()) {
			unreached(m, k, raysys.ErrClosed)
			return
		}
	}
}

// dialVia reaches k through another node that both can talk to.
func (m *Mesh) dialVia(k core.NodeKey, cause error) error {
	for _, p := range m.Connected() {
		if p.key.Node == k.Node || p.link.Relayed() {
			continue
		}
		ctx, cancel := context.WithTimeout(m.cfg.Runner.Context(), DialTimeout)
		_, err := m.link.ConnectVia(ctx, k.Node, p.link)
		cancel()
		if err == nil {
			m.cfg.Log.Info("connection relayed", zap.Stringer("peer", k), zap.String("through", string(p.key.Node)))
			return nil
		}
	}
	return cause
}

// Connected lists the peers.
func (m *Mesh) Connected() []*Peer {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := make([]*Peer, 0, len(m.peers))
	for _, p := range m.peers {
		list = append(list, p)
	}
	return list
}

// address returns where k can be dialled. It fails with raysys.ErrNodeDead when it is no member.
func (m *Mesh) address(ctx context.Context, k core.NodeKey) (string, error) {
	if !m.Alive(k) {
		return "", fmt.Errorf("%w: %s", raysys.ErrNodeDead, k)
	}
	n, err := m.member.Confirm(ctx, k.Node, k.Incarnation)
	return n.Info.Address, err
}

// up is called by the link with a new connection, before any frame of it.
func (m *Mesh) up(l *link.Peer) {
	p := newPeer(m, l)
	m.cfg.Opened(p)
	m.byLink.Store(l, p)
	m.mu.Lock()
	if m.cfg.Runner.Err() != nil {
		m.mu.Unlock()
		l.Close(errors.New("the node is closing"))
		return
	}
	m.peers[p.key.Node] = p
	m.voting.apply(p) // before any frame of it is read
	delete(m.heard, p.key.Node)
	delete(m.failed, p.key)
	m.mu.Unlock()
	m.cfg.Log.Debug("peer up", zap.Stringer("peer", p.key))
	m.cfg.Up(p)
	arrived(m, p.key, p)
	m.member.Linked()
	if l.Relayed() {
		m.cfg.Runner.Run(func() { m.improve(p) })
	}
}

// down is called by the link after the last frame of a connection.
func (m *Mesh) down(l *link.Peer, cause error) {
	v, ok := m.byLink.LoadAndDelete(l)
	if !ok {
		return
	}
	p := v.(*Peer)
	m.mu.Lock()
	if m.peers[p.key.Node] == p {
		delete(m.peers, p.key.Node)
		m.heard[p.key.Node] = time.Now().Add(-l.Silence())
	}
	m.voting.forget(m, p.key)
	m.mu.Unlock()
	m.cfg.Log.Debug("peer down", zap.Stringer("peer", p.key), zap.Error(cause))
	p.down(cause)
	m.cfg.Down(p, cause)
	if m.cfg.Runner.Err() != nil {
		return
	}
	// Either its process died, which a refused redial proves (rule C17), or the network did.
	if errors.Is(cause, link.ErrReset) {
		m.member.LinkReset(p.key.Node, p.key.Incarnation)
	}
	if !errors.Is(cause, link.ErrLeft) {
		m.Connect(p.key, func(*Peer, error) {})
	}
}

// LastWords is how long the frames of a node that has left are still handled: its last answers may arrive later than
// the news that it left.
const LastWords = 2 * time.Second

// Gone ends the connection and the dialling to an incarnation that is no longer a member; heard means that
// it was heard until it was gone.
func (m *Mesh) Gone(k core.NodeKey, heard bool) {
	m.mu.Lock()
	delete(m.admitted, k)
	delete(m.failed, k)
	if p := m.peers[k.Node]; p == nil || p.key == k {
		delete(m.heard, k.Node)
		if p != nil {
			p.gone = true
			m.voting.apply(p)
		}
	}
	m.voting.forget(m, k)
	m.mu.Unlock()
	if p := m.Peer(k); p != nil {
		end := func() {
			p.link.Close(fmt.Errorf("%w: incarnation %d is not in the cluster any more", raysys.ErrNodeDead, k.Incarnation))
		}
		if heard { // if it left by itself, it ends the connection itself, behind its last words
			m.cfg.Runner.After(LastWords, end)
		} else {
			end()
		}
	}
	unreached(m, k, fmt.Errorf("%w: %s", raysys.ErrNodeDead, k))
}

// Reach connects to a node and has start ask it; failed hears why it cannot be connected to.
func (m *Mesh) Reach(k core.NodeKey, start func(*Questions), failed func(error)) {
	m.Connect(k, func(p *Peer, err error) {
		if err != nil {
			failed(err)
			return
		}
		start(&p.Questions)
	})
}
