package member

import (
	"context"
	"errors"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/store"
)

// Died ends a node's incarnation on proof that its process is dead: its supervisor saw it exit, say. Its session is destroyed, so
// that others take over at once. Nothing happens when that incarnation is gone already. It needs no membership, so that a
// supervisor can call it.
func Died(ctx context.Context, kv store.KV, node raysys.NodeID, incarnation uint64) error {
	p, err := kv.Get(ctx, nodeKey(node))
	if errors.Is(err, store.ErrNotFound) || err == nil && (p.Create != incarnation || p.Session == "") {
		return nil
	}
	if err == nil {
		err = kv.Destroy(ctx, p.Session)
	}
	if err != nil {
		return fmt.Errorf("end dead node %s, incarnation %d: %w", node, incarnation, err)
	}
	return nil
}

// DiedLaunch is Died for a supervisor, which does not know incarnations but started the process: what the record names as
// this start of it is dead. Nothing happens when the record is of another start, which is a successor, or a node of the same
// name elsewhere. ended reports whether there was something to end.
func DiedLaunch(ctx context.Context, kv store.KV, node raysys.NodeID, launch string) (ended bool, err error) {
	if launch == "" {
		return false, fmt.Errorf("%w: the death of node %s without the name of its start proves nothing", raysys.ErrBadOption, node)
	}
	p, err := kv.Get(ctx, nodeKey(node))
	var n Node
	switch {
	case errors.Is(err, store.ErrNotFound):
		return false, nil
	case err == nil:
		n, err = decodeNode(p)
	}
	if err == nil && (n.Launch != launch || p.Session == "") {
		return false, nil
	}
	if err == nil {
		err = kv.Destroy(ctx, p.Session)
	}
	if err != nil {
		return false, fmt.Errorf("end dead node %s: %w", node, err)
	}
	return true, nil
}

// redials is how often a node is dialled whose link was reset, when the answer is neither yes nor no.
const redials = 3

// LinkReset is to be called when an established link to the node was reset or closed without a word. If its address then
// refuses a connection, the process is dead (C17), and its session is destroyed at once; if it answers, or nothing does, only
// silence counts. It does not wait.
func (m *Member) LinkReset(node raysys.NodeID, incarnation uint64) {
	v := m.View()
	n, ok := v.Node(node)
	if !ok || n.Incarnation != incarnation || incarnation == m.incarnation || m.cfg.Prober == nil {
		return
	}
	m.mu.Lock()
	busy := m.proving[incarnation]
	m.proving[incarnation] = true
	m.mu.Unlock()
	if busy {
		return
	}
	m.start(func() {
		defer func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			delete(m.proving, incarnation)
		}()
		m.prove(n)
	})
}

func (m *Member) prove(n Node) {
	pause := m.cfg.backoff()
	for range redials {
		ctx, cancel := context.WithTimeout(m.ctx, m.cfg.TTL/10)
		err := m.cfg.Prober.Redial(ctx, n)
		cancel()
		if err == nil {
			return
		}
		if errors.Is(err, ErrNotListening) {
			m.destroy(n, DeathProven)
			return
		}
		if !m.wait(pause.next()) {
			return
		}
	}
}
