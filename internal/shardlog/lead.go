package shardlog

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/raysys/raysys/store"
)

// ErrNotLeader: another node leads the shard. The error is a NotLeaderError.
var ErrNotLeader = errors.New("shard led by another node")

// NotLeaderError names the leader.
type NotLeaderError struct{ Leader Leader }

func (e *NotLeaderError) Error() string {
	return fmt.Sprintf("shard %d is led by %s, epoch %d", e.Leader.Shard, e.Leader.Node, e.Leader.Epoch)
}

// Is makes errors.Is(err, ErrNotLeader) true.
func (e *NotLeaderError) Is(target error) bool { return target == ErrNotLeader }

// Lead takes the shard, loads it and serves it:
//
//  1. the leader's key is made and held by the session: its CreateIndex is the epoch (C9)
//  2. snapshot and log are read, consistently: no other node can append any more
//  3. an empty segment is committed, which proves it (C10)
//
// ErrNotLeader when another node leads, ErrSessionGone when the session is over, ErrCorrupt when the log is damaged;
// other errors are the KV's, and the call may be repeated. A key that this session holds from an unclear earlier
// attempt, or from a Shard of this process that was closed, is taken over.
func Lead(ctx context.Context, cfg LeadConfig) (*Shard, error) {
	cfg = cfg.withDefaults()
	epoch, err := seize(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("lead shard %d: %w", cfg.Shard, err)
	}
	key := LeaderKey(cfg.Shard)
	s := &Shard{
		cfg:   cfg,
		epoch: epoch,
		// The index tells this leadership from a later one of the same session.
		fence: []store.Op{store.CheckSession(key, cfg.Session), store.CheckIndex(key, epoch)},
		wake:  make(chan struct{}, 1),
		full:  make(chan struct{}, 1),
		done:  make(chan struct{}),
	}
	// Until it serves, the shard's calls end with ctx.
	s.ctx, s.cancel = context.WithCancel(ctx)
	if err := s.begin(); err != nil {
		s.cancel()
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		// Let another have it at once. If that does not reach the store, GiveUp or the session's end does.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.Timeout)
		defer cancel()
		_, _ = cfg.KV.Txn(ctx, append(append([]store.Op{}, s.fence...), store.Delete(key)))
		return nil, fmt.Errorf("lead shard %d: %w", cfg.Shard, err)
	}
	s.cancel()
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.owned.Go(s.commits)
	s.owned.Go(s.compactions)
	s.grew(0)
	return s, nil
}

// begin loads the table and commits the first segment of this leader. Nothing of a leader before can come in between:
// its key is gone, and every write of its was conditional on that.
func (s *Shard) begin() error {
	m, err := s.load()
	if err != nil {
		return err
	}
	s.core = newCore(m, s.epoch)
	size, err := s.append(s.core.block(&draft{first: 1}, newNonce()), nil)
	if err != nil {
		return err
	}
	m.epoch = s.epoch
	m.next++
	s.sizes.add(size)
	return nil
}

// seize makes the leader's key and returns the epoch.
func seize(ctx context.Context, cfg LeadConfig) (epoch uint64, err error) {
	id := newNonce()
	mine := hex.EncodeToString(id[:])
	value, err := json.Marshal(leaderValue{Node: cfg.Node, Nonce: mine})
	if err != nil {
		return 0, err
	}
	key := LeaderKey(cfg.Shard)
	pause := newPauses()
	for {
		pairs, err := limited(ctx, cfg, func(ctx context.Context) ([]store.Pair, error) {
			return cfg.KV.Txn(ctx, []store.Op{store.CheckNotExists(key), store.Lock(key, value, cfg.Session)})
		})
		if err == nil {
			return pairs[1].Create, nil
		}
		if !errors.Is(err, store.ErrRefused) && !errors.Is(err, store.ErrUnknownOutcome) {
			return 0, err
		}
		epoch, rerr := holder(ctx, cfg, key, mine)
		if epoch != 0 || rerr != nil {
			return epoch, rerr
		}
		if !pause.Wait(ctx) {
			return 0, fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// holder reads the owner of the key that could not be taken. It returns the epoch if the attempt of that nonce has,
// an error if there is no point in another attempt, neither if the next one may succeed.
func holder(ctx context.Context, cfg LeadConfig, key, mine string) (epoch uint64, err error) {
	p, err := limited(ctx, cfg, func(ctx context.Context) (store.Pair, error) { return cfg.KV.Get(ctx, key) })
	if errors.Is(err, store.ErrNotFound) {
		// Refused and not there: the session is gone, or there was a leader until just now.
		alive, err := limited(ctx, cfg, func(ctx context.Context) (bool, error) { return cfg.KV.Session(ctx, cfg.Session) })
		if err == nil && !alive {
			err = fmt.Errorf("%w: %s", store.ErrSessionGone, cfg.Session)
		}
		return 0, err
	}
	if err != nil {
		return 0, err
	}
	leader, v, err := parseLeader(p)
	switch {
	case err != nil:
		return 0, err
	case p.Session != "" && p.Session != cfg.Session:
		return 0, &NotLeaderError{leader}
	case p.Session == cfg.Session && v.Nonce == mine && p.Modify == p.Create:
		return p.Create, nil
	}
	// It has no holder, or is this session's from an earlier try. A leader needs a key of its own, for the epoch.
	_, err = limited(ctx, cfg, func(ctx context.Context) ([]store.Pair, error) {
		return cfg.KV.Txn(ctx, []store.Op{store.DeleteCAS(key, p.Modify)})
	})
	if err != nil && !errors.Is(err, store.ErrRefused) && !errors.Is(err, store.ErrUnknownOutcome) {
		return 0, err
	}
	return 0, nil
}

// GiveUp deletes the leader's key if cfg's session holds it, from an unclear attempt to lead the shard or from a Shard of
// this process that was closed. No such Shard may be open, nor Lead be called, meanwhile. An error is the KV's, and the call
// may be repeated.
func GiveUp(ctx context.Context, cfg LeadConfig) error {
	cfg = cfg.withDefaults()
	key := LeaderKey(cfg.Shard)
	p, err := limited(ctx, cfg, func(ctx context.Context) (store.Pair, error) { return cfg.KV.Get(ctx, key) })
	if err == nil && p.Session == cfg.Session {
		_, err = limited(ctx, cfg, func(ctx context.Context) ([]store.Pair, error) {
			return cfg.KV.Txn(ctx, []store.Op{store.DeleteCAS(key, p.Modify)})
		})
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrRefused) {
		return fmt.Errorf("give up shard %d: %w", cfg.Shard, err)
	}
	return nil
}

// limited makes one attempt within the timeout.
func limited[T any](ctx context.Context, cfg LeadConfig, f func(ctx context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	return f(ctx)
}
