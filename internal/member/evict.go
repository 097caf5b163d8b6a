package member

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/store"
)

// vote is the value of evict/<incarnation>, which explains the eviction to operators.
type vote struct {
	V       int             `json:"v"`
	Node    raysys.NodeID   `json:"node"`
	By      raysys.NodeID   `json:"by"`
	ByInc   uint64          `json:"byIncarnation"`
	Why     string          `json:"why"`
	Agreed  []raysys.NodeID `json:"agreed,omitempty"`
	Written time.Time       `json:"written"` // by the writer's clock, for people only
}

func (v vote) String() string {
	return fmt.Sprintf("by %s (incarnation %d), with %v: %s", v.By, v.ByInc, v.Agreed, v.Why)
}

func decodeVote(value []byte) vote {
	var v vote
	if json.Unmarshal(value, &v) != nil {
		v.Why = "the vote cannot be read"
	}
	return v
}

// evict writes the verdict over a node in one transaction (C17): this node and the victim are still members, this
// node is not evicted itself, and the ledger is the one on which the half was counted. So of two that evict each
// other one succeeds, and evictions at the same time are counted one after the other. errHalf when it would be too
// many. It returns false and no error when the verdict was there already.
func (m *Member) evict(ctx context.Context, victim Node, agreed []raysys.NodeID, why string) (written bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.TTL/4)
	defer cancel()
	data, err := json.Marshal(vote{
		V: recordVersion, Node: victim.ID, By: m.cfg.Self.ID, ByInc: m.incarnation, Why: why, Agreed: agreed, Written: m.cfg.Clock.Wall(),
	})
	if err != nil {
		return false, fmt.Errorf("encode the vote on %s: %w", victim.ID, err)
	}
	for {
		written, err := m.tryEvict(ctx, victim, data)
		var refused *store.RefusedError
		switch {
		case errors.As(err, &refused) && refused.Op.Key == ledgerKey: // another eviction came first: count again
		case errors.Is(err, store.ErrUnknownOutcome): // the next try finds the verdict, or makes it
		case errors.Is(err, store.ErrRefused):
			m.Recheck() // if it is this member that is not one any more
			return false, fmt.Errorf("evict node %s, incarnation %d: %w", victim.ID, victim.Incarnation, err)
		default:
			return written, err
		}
		if ctx.Err() != nil {
			return false, fmt.Errorf("evict node %s, incarnation %d: %w: %w", victim.ID, victim.Incarnation, context.Cause(ctx), err)
		}
	}
}

func (m *Member) tryEvict(ctx context.Context, victim Node, data []byte) (written bool, err error) {
	kv := m.cfg.KV
	read, err := kv.Txn(ctx, []store.Op{store.Read(ledgerKey), store.Read(evictKey(victim.Incarnation)), store.Read(evictKey(m.incarnation))})
	if err != nil {
		return false, err
	}
	if read[1].Create != 0 {
		return false, nil
	}
	if read[2].Create != 0 {
		m.Recheck() // do not wait for the renewal's turn
		return false, fmt.Errorf("evict node %s, incarnation %d: %w: this one was voted out itself", victim.ID, victim.Incarnation, raysys.ErrFenced)
	}
	now := m.cfg.Clock.Mono()
	entries, damage := decodeLedger(read[0].Value)
	if damage != nil {
		m.reportGarbage(read[0], damage) // the write below replaces it
	}
	if damage != nil || read[0].Create == 0 {
		if entries, err = m.verdicts(ctx); err != nil {
			return false, err
		}
	}
	entries = m.ledger.observe(entries, now, m.cfg.TTL)
	pairs, _, err := kv.List(ctx, shardlog.NodesPrefix, store.Consistent)
	if err != nil {
		return false, err
	}
	var members []Node
	for _, p := range pairs {
		if p.Session != "" {
			members = append(members, Node{Incarnation: p.Create})
		}
	}
	recent := m.ledger.recent(entries, now, m.cfg.TTL)
	if !mayEvict(recent, members) {
		return false, fmt.Errorf("evict node %s, incarnation %d: %w: %d of now %d members went lately", victim.ID, victim.Incarnation, errHalf, len(recent), len(members))
	}
	lately := append(recent, ledgerEntry{Incarnation: victim.Incarnation, Node: victim.ID})
	next, err := encodeLedger(lately)
	if err != nil {
		return false, err
	}
	ops := []store.Op{
		store.CheckSession(nodeKey(m.cfg.Self.ID), m.session),
		store.CheckSession(nodeKey(victim.ID), victim.session),
		store.CheckNotExists(evictKey(m.incarnation)),
		store.CheckAndSet(ledgerKey, next, read[0].Modify),
		store.CheckNotExists(evictKey(victim.Incarnation)),
		store.Set(evictKey(victim.Incarnation), data),
	}
	if victim.Incarnation == m.incarnation { // it leaves by itself: the third condition says the same as the fifth
		ops = slices.Delete(ops, 4, 5)
	}
	if _, err = kv.Txn(ctx, ops); err != nil {
		return false, err
	}
	m.ledger.observe(lately, m.cfg.Clock.Mono(), m.cfg.TTL) // another member may destroy it before this one reads it again
	return true, nil
}

// grace is added to the lease that an evicted node is given, for clocks that do not run at quite the same rate.
func (m *Member) grace() time.Duration { return m.cfg.TTL / 50 }

// destroy ends the session of a node, again and again until the store takes it or the member ends.
func (m *Member) destroy(victim Node, kind EventKind) {
	pause := m.cfg.backoff()
	for {
		ctx, cancel := context.WithTimeout(m.ctx, m.cfg.TTL/4)
		err := m.cfg.KV.Destroy(ctx, victim.session)
		cancel()
		if err == nil {
			m.event(kind, victim, nil)
			return
		}
		m.event(kind, victim, err)
		if !m.wait(pause.next()) {
			return
		}
	}
}
