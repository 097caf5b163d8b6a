package member

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/store"
)

// renewals is the goroutine that renews the lease three times within it, and more often after one that failed.
func (m *Member) renewals() {
	a := newAlarm(m.cfg.Clock)
	defer func() { a.stop() }()
	pause := m.cfg.backoff()
	a.set(m.lease.left() - m.cfg.TTL*2/3)
	for {
		select {
		case <-a.C:
		case <-m.renew:
		case <-m.ctx.Done():
			return
		}
		start := read(m.cfg.Clock)
		err := m.renewOnce(m.ctx)
		switch {
		case m.ctx.Err() != nil:
			return
		case final(err):
			m.fence(err)
			return
		case err != nil:
			m.event(RenewalFailed, Node{}, err)
			a.set(pause.next())
			continue
		}
		pause.reset()
		m.extend(start)
		a.set(m.cfg.TTL/3 - start.elapsed(m.cfg.Clock))
	}
}

// renewOnce is one renewal. It is good only if the session was renewed and then one consistent read said that this is still
// the same store, that no vote ended this incarnation, and that its key is there. The lease counts from before both, so that a
// vote which the read did not see begins a lease that ends no earlier than this one (C17).
func (m *Member) renewOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.TTL/2)
	defer cancel()
	gone := m.cfg.KV.Renew(ctx, m.session)
	if gone != nil && !errors.Is(gone, store.ErrSessionGone) {
		return fmt.Errorf("renew the lease of node %s: %w", m.cfg.Self.ID, gone)
	}
	pairs, err := m.cfg.KV.Txn(ctx, []store.Op{
		store.Read(shardlog.LayoutKey), store.Read(evictKey(m.incarnation)), store.Read(nodeKey(m.cfg.Self.ID)), store.Read(ledgerKey),
	})
	if err != nil {
		if gone != nil { // most likely it is over; nothing may rest on the lease until it is known
			m.lease.void()
			signal(m.renewed)
		}
		return fmt.Errorf("renew the lease of node %s: %w", m.cfg.Self.ID, err)
	}
	config, vote, self, lately := pairs[0], pairs[1], pairs[2], pairs[3]
	if err := m.sameStore(config); err != nil {
		return err
	}
	switch {
	case gone != nil && vote.Create == 0 && self.Session == m.session && self.Create == m.incarnation:
		// The session holds its key, so it lives: a Consul server that was just elected answers renewals before it has read its
		// own log, from a state in which there are no sessions yet.
		return fmt.Errorf("renew the lease of node %s: %w: %w, but it holds its key", m.cfg.Self.ID, store.ErrUnavailable, gone)
	case gone != nil:
		return fmt.Errorf("%w: the session of node %s, incarnation %d, is gone: %s", raysys.ErrFenced, m.cfg.Self.ID, m.incarnation, whyGone(m))
	case vote.Create != 0:
		return fmt.Errorf("%w: node %s, incarnation %d, was voted out: %v", raysys.ErrFenced, m.cfg.Self.ID, m.incarnation, decodeVote(vote.Value))
	case self.Session != m.session || self.Create != m.incarnation:
		return fmt.Errorf("%w: the key of node %s, incarnation %d, was removed from the store", raysys.ErrFenced, m.cfg.Self.ID, m.incarnation)
	}
	entries, err := decodeLedger(lately.Value)
	m.ledger.observe(entries, m.cfg.Clock.Mono(), m.cfg.TTL)
	if err != nil {
		m.mendLedger(lately, err)
	}
	return nil
}

// whyGone says what can have ended the session.
func whyGone(m *Member) string {
	start := m.lease.start.Load()
	if start == nil {
		return "it was not renewed for too long, or another node or a person ended it"
	}
	ago := start.elapsed(m.cfg.Clock)
	if ago >= m.cfg.TTL {
		return fmt.Sprintf("it was renewed last %v ago, and its TTL is %v", ago.Round(time.Millisecond), m.cfg.TTL)
	}
	return fmt.Sprintf("it was renewed %v ago, so that its TTL of %v did not end it: another node proved this one dead, a person ended it, or the store lost it, as Consul does with the node in its catalog on which a session was made",
		ago.Round(time.Millisecond), m.cfg.TTL)
}

// sameStore compares the id in the store's layout with the one that the process began with.
func (m *Member) sameStore(config store.Pair) error {
	if config.Create == 0 {
		return fmt.Errorf("%w: it holds no config of cluster %s, whose id was %s", raysys.ErrStoreReplaced, m.cfg.Cluster, m.cfg.ClusterID)
	}
	var v struct { // the id alone, whatever else a version has there
		ID string `json:"id"`
	}
	if err := json.Unmarshal(config.Value, &v); err != nil {
		return fmt.Errorf("read the id of cluster %s: %w: %w", m.cfg.Cluster, shardlog.ErrBadLayout, err)
	}
	if v.ID != m.cfg.ClusterID {
		return fmt.Errorf("%w: it holds cluster %s with id %s, not %s", raysys.ErrStoreReplaced, m.cfg.Cluster, v.ID, m.cfg.ClusterID)
	}
	return nil
}

// fence ends this incarnation: first nothing is served any more, then the session is destroyed, which tells the others that
// they may take over.
func (m *Member) fence(cause error) {
	if !m.become(Fenced, cause) {
		return
	}
	if !errors.Is(cause, raysys.ErrStoreReplaced) { // the other store's sessions are not ours to touch
		ctx, cancel := context.WithTimeout(m.ctx, m.cfg.TTL/2)
		defer cancel()
		if err := m.cfg.KV.Destroy(ctx, m.session); err != nil {
			m.event(RenewalFailed, Node{}, err)
		}
	}
	m.stop(cause)
}

// passing reports whether an error of the store may pass by itself.
func passing(err error) bool {
	return errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknownOutcome) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, store.ErrSessionGone) || errors.Is(err, store.ErrRefused) ||
		errors.Is(err, errAgain)
}

// hostOf is the part of an address that names the machine; the whole of it where there is no port.
func hostOf(address string) string {
	if i := strings.LastIndexByte(address, ':'); i >= 0 {
		return address[:i]
	}
	return address
}
