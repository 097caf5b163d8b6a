package member

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/store"
)

// watch is the goroutine that follows one prefix from index on (C13: one for nodes/, one for leaders/, and no other).
func (m *Member) watch(prefix string, index uint64, apply func(pairs []store.Pair, at uint64) error) {
	pause := m.cfg.backoff()
	for {
		pairs, next, err := m.cfg.KV.Watch(m.ctx, prefix, index)
		if err == nil && next < index {
			// The index went back: the store was restored, or a server answered that lags. Only a consistent read tells.
			pairs, next, err = m.cfg.KV.List(m.ctx, prefix, store.Consistent)
		}
		if m.ctx.Err() != nil {
			return
		}
		if err == nil {
			if err = apply(pairs, next); err != nil {
				index = 0 // whatever comes next is to be looked at
			}
		}
		if err == nil && next > index {
			index = next
			pause.reset()
			continue
		}
		if err == nil {
			index = next // an answer without news: none is expected, and a store that gives many must not be spun upon
		} else {
			m.event(WatchFailed, Node{}, fmt.Errorf("watch %s: %w", prefix, err))
		}
		if !m.wait(pause.next()) {
			return
		}
	}
}

// wait lets d pass; false when the member ended first.
func (m *Member) wait(d time.Duration) bool {
	a := newAlarm(m.cfg.Clock)
	a.set(d)
	defer func() { a.stop() }()
	select {
	case <-a.C:
		return true
	case <-m.ctx.Done():
		return false
	}
}

// setNodes takes over what nodes/ holds at an index. A list without this node is not believed: either this incarnation is fenced, which the
// renewal that is asked for finds, or the store is not the one it was, and then the others are not gone either.
func (m *Member) setNodes(pairs []store.Pair, at uint64) error {
	nodes := m.readNodes(pairs)
	slices.SortFunc(nodes, func(a, b Node) int { return strings.Compare(string(a.ID), string(b.ID)) })
	if !slices.ContainsFunc(nodes, func(n Node) bool { return n.ID == m.cfg.Self.ID && n.Incarnation == m.incarnation }) {
		m.Recheck()
		return errUnread
	}
	m.publish(func() { m.nodes, m.nodesAt = nodes, at })
	return nil
}

// setLeaders takes over what leaders/ holds at an index.
func (m *Member) setLeaders(pairs []store.Pair, at uint64) error {
	leaders := make([]Leader, 0, len(pairs))
	for _, p := range pairs {
		l, err := shardlog.ParseLeader(p)
		if err != nil {
			m.reportGarbage(p, err)
			continue
		}
		if p.Session == "" {
			continue // it has no leader any more
		}
		leaders = append(leaders, Leader{Shard: l.Shard, Epoch: l.Epoch, session: l.Session, spoiled: p.Modify != p.Create})
	}
	slices.SortFunc(leaders, func(a, b Leader) int { return a.Shard - b.Shard })
	m.publish(func() { m.leaders, m.leadersAt = leaders, at })
	return nil
}

// publish makes a new view after a change of nodes, leaders or suspects.
func (m *Member) publish(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return
	}
	change()
	old := m.view.Load()
	v := newView(m.cfg.Self.ID, m.cfg.Shards, m.nodes, m.leaders, m.suspects)
	v.at, v.leadersAt = m.nodesAt, m.leadersAt
	m.view.Store(v)
	if old != nil {
		close(old.changed)
	}
}
