package member

import (
	"context"
	"errors"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/store"
)

// Values that no member wrote are an operator's mistake, or a program's that shares the store. Such a value must not
// block the cluster for long: each member reports it once, and replaces or removes it on condition that it has not
// changed since.

// maxGarbage bounds the keys that are remembered as reported.
const maxGarbage = 1024

// reportGarbage tells of a value once.
func (m *Member) reportGarbage(p store.Pair, err error) {
	m.mu.Lock()
	at, told := m.garbage[p.Key]
	if len(m.garbage) >= maxGarbage {
		clear(m.garbage)
	}
	m.garbage[p.Key] = p.Modify
	m.mu.Unlock()
	if !told || at != p.Modify {
		m.event(Garbage, Node{}, fmt.Errorf("key %s: %w", p.Key, err))
	}
}

// readNodes reads what nodes/ holds. A record that no session holds is no member's: nothing would ever end it, so it
// does not count and goes. One that cannot be read, of a session that lives, is a member all the same: its last
// readable record counts, and it writes its record anew. One bad record must not hide the others.
func (m *Member) readNodes(pairs []store.Pair) []Node {
	nodes := make([]Node, 0, len(pairs))
	for _, p := range pairs {
		n, err := decodeNode(p)
		switch {
		case p.Session == "":
			m.reportGarbage(p, fmt.Errorf("%w: no session holds this record, so it is no member's, and is removed", store.ErrCorrupt))
			m.start(func() { m.replaceGarbage(p, store.DeleteCAS(p.Key, p.Modify)) })
			continue
		case err != nil:
			m.reportGarbage(p, err)
			if p.Session == m.session {
				m.start(m.rewrite)
			}
			known, ok := Node{}, false
			if v := m.View(); v != nil {
				known, ok = v.Incarnation(p.Create)
			}
			if !ok {
				continue
			}
			n = known
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// mendLedger writes what the votes say of recent evictions in the place of a ledger that cannot be read.
func (m *Member) mendLedger(p store.Pair, err error) {
	m.reportGarbage(p, fmt.Errorf("%w: it is written anew", err))
	if m.View() == nil {
		return // while it joins, the next renewal does it
	}
	m.start(func() {
		ctx, cancel := context.WithTimeout(m.ctx, m.cfg.TTL/4)
		defer cancel()
		entries, err := m.verdicts(ctx)
		if err != nil {
			return // the next renewal tries again
		}
		if data, err := encodeLedger(m.ledger.observe(entries, m.cfg.Clock.Mono(), m.cfg.TTL)); err == nil {
			m.replaceGarbage(p, store.CheckAndSet(p.Key, data, p.Modify))
		}
	})
}

// replaceGarbage does op, unless another member was faster; the next reader of the value tries again.
func (m *Member) replaceGarbage(p store.Pair, op store.Op) {
	ctx, cancel := context.WithTimeout(m.ctx, m.cfg.TTL/4)
	defer cancel()
	if _, err := m.cfg.KV.Txn(ctx, []store.Op{op}); err != nil && !passing(err) {
		m.reportGarbage(p, err)
	}
}

// rewrite writes this node's record as it should be.
func (m *Member) rewrite() {
	ctx, cancel := context.WithTimeout(m.ctx, m.cfg.TTL/4)
	defer cancel()
	if err := m.write(ctx, func(*record) {}); err != nil {
		m.event(WatchFailed, Node{}, err)
	}
}

// DiedLaunch ends a node's incarnation on proof that its process is dead: the supervisor that started it saw it exit. The
// node's session is destroyed, so that others take over at once. A supervisor knows no incarnations: launch is what the
// record names as this start of the process. Nothing happens when the record is of another start, which is a successor, or
// a node of the same name elsewhere. ended reports whether there was something to end. It needs no membership.
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
