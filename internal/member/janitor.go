package member

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/store"
)

// janitor removes the votes on incarnations that have been gone for an hour, and calls Config.Sweep. The member that has been there longest is
// the one that does it; it counts the hour by its own clock, from when it first saw a vote without its node.
type janitor struct {
	next    time.Duration            // when to look again; guarded by detector.mu
	working bool                     // guarded by detector.mu
	since   map[uint64]time.Duration // used by the one that works
}

const (
	keepVotes  = time.Hour
	roundEvery = 10 * time.Minute
)

// look begins a round if one is due. With detector.mu held.
func (j *janitor) look(m *Member, v *View, now time.Duration) {
	if now < j.next || j.working {
		return
	}
	j.next = now + roundEvery
	for _, n := range v.nodes {
		if n.Incarnation < m.incarnation {
			j.since = nil
			return
		}
	}
	if m.State() != Active {
		return
	}
	j.working = m.start(func() {
		if err := j.round(m, now); err != nil && m.ctx.Err() == nil {
			m.event(WatchFailed, Node{}, err)
		}
		m.detector.mu.Lock()
		defer m.detector.mu.Unlock()
		j.working = false
	})
}

func (j *janitor) round(m *Member, now time.Duration) error {
	ctx, cancel := context.WithTimeout(m.ctx, m.cfg.TTL)
	defer cancel()
	if m.cfg.Sweep != nil {
		if err := m.cfg.Sweep(ctx); err != nil {
			m.event(WatchFailed, Node{}, fmt.Errorf("remove what dead sessions left: %w", err))
		}
	}
	keys, err := m.cfg.KV.Keys(ctx, shardlog.EvictPrefix)
	if err != nil {
		return fmt.Errorf("list old votes: %w", err)
	}
	nodes, err := m.listNodes(ctx)
	if err != nil {
		return err
	}
	live := map[uint64]bool{}
	for _, n := range nodes {
		live[n.Incarnation] = true
	}
	since := map[uint64]time.Duration{}
	var ops []store.Op
	for _, key := range keys {
		id, err := strconv.ParseUint(strings.TrimPrefix(key, shardlog.EvictPrefix), 10, 64)
		if err != nil {
			if len(ops) < store.MaxTxnOps {
				m.reportGarbage(store.Pair{Key: key}, fmt.Errorf("%w: it names no incarnation, and is removed", store.ErrCorrupt))
				ops = append(ops, store.Delete(key))
			}
			continue
		}
		if live[id] {
			continue
		}
		at, ok := j.since[id]
		if !ok {
			at = now
		}
		if now-at < keepVotes {
			since[id] = at
		} else if len(ops) < store.MaxTxnOps {
			ops = append(ops, store.Delete(key))
		} else {
			since[id] = at
		}
	}
	j.since = since
	if len(ops) == 0 {
		return nil
	}
	if _, err := m.cfg.KV.Txn(ctx, ops); err != nil && !errors.Is(err, store.ErrUnknownOutcome) {
		return fmt.Errorf("remove %d old votes: %w", len(ops), err)
	}
	return nil
}
