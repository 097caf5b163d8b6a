package member

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/store"
)

// errAgain: something is in the way that goes away by itself.
var errAgain = errors.New("try again")

// Join makes this process a member and returns once it knows the others. A store that cannot be reached is tried again,
// with OnAttempt told each time, until ctx ends. ErrNameTaken when another live node has this name; a former life of it
// whose process is provably dead is replaced at once, one that cannot be asked once its session is gone.
// ErrStoreReplaced when the store does not hold the cluster that Config names. ctx is for joining only.
func Join(ctx context.Context, cfg Config) (*Member, error) {
	cfg, err := cfg.normal()
	if err != nil {
		return nil, fmt.Errorf("join cluster %s: %w", cfg.Cluster, err)
	}
	m := newMember(cfg)
	j := &joining{Member: m}
	pause := cfg.pauses()
	for n := 1; ; n++ {
		err := j.enter(ctx)
		if err == nil {
			break
		}
		err = fmt.Errorf("join cluster %s as node %s: %w", cfg.Cluster, cfg.Self.ID, err)
		if ctx.Err() != nil || !passing(err) {
			j.undo()
			return nil, err
		}
		wait := pause.Next()
		if cfg.OnAttempt != nil {
			cfg.OnAttempt(Attempt{N: n, Err: err, Wait: wait})
		}
		a := newAlarm(cfg.Clock)
		a.set(wait)
		select {
		case <-a.C:
		case <-ctx.Done():
			a.stop()
			j.undo()
			return nil, fmt.Errorf("%w (gave up after %d attempts: %w)", err, n, context.Cause(ctx))
		}
	}
	m.ctx, m.end = context.WithCancelCause(context.WithoutCancel(ctx))
	if !hasHosts(m.readNodes(j.nodes)) && m.tryHosting(ctx) { // the first node of a cluster
		if nodes, at, err := cfg.KV.List(ctx, shardlog.NodesPrefix, store.Consistent); err == nil {
			j.nodes, j.nodesAt = nodes, at
		}
	}
	if err := m.setNodes(j.nodes, j.nodesAt); err != nil { // cannot be: enter looked
		j.undo()
		return nil, fmt.Errorf("join cluster %s as node %s: %w", cfg.Cluster, cfg.Self.ID, err)
	}
	_ = m.setLeaders(j.leaders, j.leadersAt)
	m.lease.extend(j.begun)
	m.start(m.lapses)
	m.start(m.renewals)
	m.start(func() { m.watch(shardlog.NodesPrefix, j.nodesAt, m.setNodes) })
	m.start(func() { m.watch(shardlog.LeadersPrefix, j.leadersAt, m.setLeaders) })
	if cfg.Prober != nil {
		m.start(m.detector.run)
		if cfg.Self.Works() {
			m.start(m.guard.run)
		}
	}
	if cfg.Self.Eligible() {
		m.start(m.seekHosting)
	}
	return m, nil
}

// joining is a member on its way in.
type joining struct {
	*Member
	begun              reading // the start of the last good renewal, or of making the session
	nodes, leaders     []store.Pair
	nodesAt, leadersAt uint64

	rival      uint64        // an incarnation of this name that is in the way
	rivalSince time.Duration // since when
}

// enter makes one attempt. What an attempt before it achieved, it finds and keeps.
func (j *joining) enter(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, j.cfg.TTL/2)
	defer cancel()
	kv, self := j.cfg.KV, j.cfg.Self.ID
	config, err := kv.Get(ctx, shardlog.LayoutKey)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if err := j.sameStore(config); err != nil {
		return err
	}
	if err := j.openSession(ctx); err != nil {
		return err
	}
	if err := j.takeKey(ctx); err != nil {
		return err
	}
	begun := read(j.cfg.Clock)
	err = j.renewOnce(ctx)
	if errors.Is(err, raysys.ErrFenced) {
		// Either the nodes have evicted this incarnation before, since a restored store gives a number twice, or the session
		// has just ended.
		j.undo()
		return fmt.Errorf("%w: %v", errAgain, err)
	}
	if err != nil {
		return err
	}
	j.begun = begun
	if j.nodes, j.nodesAt, err = kv.List(ctx, shardlog.NodesPrefix, store.Consistent); err != nil {
		return err
	}
	if j.leaders, j.leadersAt, err = kv.List(ctx, shardlog.LeadersPrefix, store.Consistent); err != nil {
		return err
	}
	for _, p := range j.nodes {
		if p.Key == nodeKey(self) && p.Create == j.incarnation {
			return nil
		}
	}
	return fmt.Errorf("%w: %w", errAgain, errUnread)
}

// openSession makes the session, unless an attempt before made one that still lives.
func (j *joining) openSession(ctx context.Context) error {
	if j.session != "" {
		err := j.cfg.KV.Renew(ctx, j.session)
		if err == nil || !errors.Is(err, store.ErrSessionGone) {
			return err
		}
		j.session = ""
	}
	name := fmt.Sprintf("raysys %s %s", j.cfg.Cluster, j.cfg.Self.ID)
	session, err := j.cfg.KV.NewSession(ctx, name, j.cfg.TTL)
	if err != nil {
		return err
	}
	j.session = session
	return nil
}

// takeKey makes nodes/<self>, whose CreateIndex is the incarnation; so it must not be one that is there.
func (j *joining) takeKey(ctx context.Context) error {
	key := nodeKey(j.cfg.Self.ID)
	data, err := j.record.encode()
	if err != nil {
		return err
	}
	for range 3 { // there, removed, made
		there, err := j.cfg.KV.Get(ctx, key)
		switch {
		case errors.Is(err, store.ErrNotFound):
			pairs, err := j.cfg.KV.Txn(ctx, []store.Op{store.CheckNotExists(key), store.Lock(key, data, j.session)})
			if err != nil {
				return err
			}
			j.incarnation = pairs[1].Create
			return nil
		case err != nil:
			return err
		case there.Session == j.session:
			j.incarnation = there.Create // by an attempt whose answer was lost
			return nil
		case there.Session == "":
			_, err = j.cfg.KV.Txn(ctx, []store.Op{store.DeleteCAS(key, there.Modify)})
		default:
			err = j.replace(ctx, there)
		}
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: key %s comes and goes", errAgain, key)
}

// replace ends a former life of this node if its process is provably dead: no process listens at its address on this
// very machine, or its address is the one that this process has bound. Refusal by another host proves nothing, it may
// be a firewall's.
func (j *joining) replace(ctx context.Context, there store.Pair) error {
	old, err := decodeNode(there)
	if err != nil { // its holder lives and writes it anew, or the session of its holder ends
		j.reportGarbage(there, err)
		old = Node{Info: Info{ID: j.cfg.Self.ID, Address: "an address that cannot be read"}, Incarnation: there.Create}
	}
	taken := fmt.Errorf("%w: node %s lives at %s as incarnation %d: give this one another name, or stop that one", ErrNameTaken, old.ID, old.Address, old.Incarnation)
	proven := old.Address == j.cfg.Self.Address
	if err == nil && !proven && j.cfg.Prober != nil {
		dial, cancel := context.WithTimeout(ctx, j.cfg.TTL/10)
		err = j.cfg.Prober.Redial(dial, old)
		cancel()
		if err == nil {
			return taken
		}
		proven = errors.Is(err, ErrNotListening) && hostOf(old.Address) == hostOf(j.cfg.Self.Address)
	}
	if proven {
		j.event(DeathProven, old, nil)
		return j.cfg.KV.Destroy(ctx, there.Session)
	}
	now := j.cfg.Clock.Mono()
	if j.rival != old.Incarnation {
		j.rival, j.rivalSince = old.Incarnation, now
	}
	if now-j.rivalSince > 2*j.cfg.TTL+j.cfg.TTL/2 { // its session would be gone if it did not renew it
		return taken
	}
	return fmt.Errorf("%w: node %s is registered at %s as incarnation %d, which cannot be asked whether it lives: its session ends within %v if it does not", errAgain, old.ID, old.Address, old.Incarnation, 2*j.cfg.TTL)
}

// undo destroys the session, with its keys, if the store can be reached.
func (j *joining) undo() {
	if j.session == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), j.cfg.TTL/10)
	defer cancel()
	if j.cfg.KV.Destroy(ctx, j.session) == nil {
		j.session = ""
	}
}
