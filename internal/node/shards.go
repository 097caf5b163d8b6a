package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/shardlog"
)

// shardWriters is how many shards of a node write to the store at a time: its connections for data (C13), but for one that
// reads have.
const shardWriters = 8

// shards are those that a node leads, takes and gives up.
type shards struct {
	c        *Cluster
	writers  shardlog.Writers
	Moves    sync.WaitGroup // shards being taken or given up
	duty     sync.Mutex     // held while duties decides about shards
	Retiring atomic.Bool    // the node takes no shard any more

	mu      sync.Mutex   // guards working
	working map[int]bool // shards that are being taken or given up
}

// lead takes the shards that are this node's and gives up those that are another's.
func (sh *shards) lead(view *member.View) {
	if sh.Retiring.Load() || sh.c.ctx.Err() != nil {
		return
	}
	led := sh.c.Registry.Led()
	for n := range sh.c.Registry.Layout().Shards {
		preferred, ok := view.Preferred(n)
		mine := ok && preferred == sh.c.Self().Node
		s := led[n]
		leader, taken := sh.c.Leader(n)
		// The store was away while this node took the shard or gave it up. The key names this node, which does not
		// serve the shard.
		left := s == nil && taken && leader == sh.c.Self()
		// An operator or another program deleted the key, or wrote to it: this node can commit nothing, and no other
		// node may lead meanwhile.
		ended := s != nil && view.Ended(n, s.Epoch())
		give := s != nil && ok && !mine && sh.reaches(view, preferred)
		if (mine && s == nil && !taken) || give || left || ended {
			sh.mu.Lock()
			busy := sh.working[n]
			sh.working[n] = true
			sh.mu.Unlock()
			if busy {
				continue
			}
			sh.Moves.Add(1)
			go func() {
				defer sh.Moves.Done()
				switch {
				case ended:
					sh.stepDown(n, s)
				case mine:
					sh.takeOver(n)
				case s != nil:
					sh.handOver(n, s)
				default:
					sh.giveUp(n)
				}
				sh.mu.Lock()
				delete(sh.working, n)
				sh.mu.Unlock()
				sh.c.Poke()
			}()
		}
	}
}

// takeOver makes this node the leader of a shard.
func (sh *shards) takeOver(n int) {
	if sh.c.Registry.Led()[n] != nil {
		return // it has begun to lead since
	}
	s, err := shardlog.Lead(sh.c.ctx, shardlog.LeadConfig{KV: sh.c.Store, Shard: n, Session: sh.c.Member.Session(), Node: string(sh.c.Self().Node), Writers: sh.writers})
	if err != nil {
		pause := 100 * time.Millisecond // else duties would look again at once
		var other *shardlog.NotLeaderError
		switch {
		case errors.As(err, &other): // the view will show that leader in a moment, unless its watch broke
			pause = 20 * time.Millisecond
		case sh.c.ctx.Err() == nil:
			sh.c.Log.Warn("cannot lead a shard", zap.Int("shard", n), zap.Error(err))
		}
		sh.c.Runner.Pause(pause)
		return
	}
	sh.c.Registry.Lead(n, s)
	sh.c.Runner.Run(func() {
		select {
		case <-s.Done():
			sh.c.Registry.StepDown(n, s)
			if err := s.Err(); err != nil && sh.c.ctx.Err() == nil {
				level := zap.WarnLevel
				if errors.Is(err, shardlog.ErrReleased) {
					level = zap.InfoLevel
				}
				sh.c.Log.Log(level, "shard lost", zap.Int("shard", n), zap.Error(err))
			}
			sh.c.Poke()
		case <-sh.c.ctx.Done():
		}
	})
}

// handOver releases a shard to its preferred leader.
func (sh *shards) handOver(n int, s *shardlog.Shard) {
	ctx, cancel := context.WithTimeout(sh.c.ctx, 5*time.Second)
	defer cancel()
	if err := s.Release(ctx); err != nil {
		sh.c.Log.Warn("cannot hand over a shard", zap.Int("shard", n), zap.Error(err))
	}
	sh.c.Registry.StepDown(n, s)
}

// stepDown ends a leadership whose key is not in the store any more, by the view. It asks the store first whether that
// is so.
func (sh *shards) stepDown(n int, s *shardlog.Shard) {
	ctx, cancel := context.WithTimeout(sh.c.ctx, 5*time.Second)
	defer cancel()
	if err := s.Fence(ctx); !errors.Is(err, shardlog.ErrDeposed) {
		sh.c.Runner.Pause(100 * time.Millisecond) // else duties would look again at once
		return
	}
	sh.c.Registry.StepDown(n, s)
}

// giveUp lets another node take a shard whose key names this node, which does not serve it.
func (sh *shards) giveUp(n int) {
	if sh.c.Registry.Led()[n] != nil {
		return // it has begun to lead since
	}
	pause := 20 * time.Millisecond // the view will show that in a moment
	if err := shardlog.GiveUp(sh.c.ctx, shardlog.LeadConfig{KV: sh.c.Store, Shard: n, Session: sh.c.Member.Session()}); err != nil && sh.c.ctx.Err() == nil {
		sh.c.Log.Warn("cannot give up a shard", zap.Int("shard", n), zap.Error(err))
		pause = 100 * time.Millisecond
	}
	sh.c.Runner.Pause(pause)
}

// handOverAll gives up every shard, and takes none any more.
func (sh *shards) handOverAll(ctx context.Context) error {
	sh.noMoves()
	var errs []error
	for n, s := range sh.c.Registry.Led() {
		if sh.c.Member.State() != member.Active {
			_ = s.Close() // without a lease this node cannot release the shard
		} else if err := s.Release(ctx); err != nil {
			errs = append(errs, fmt.Errorf("hand over shard %d: %w", n, err))
		}
		sh.c.Registry.StepDown(n, s)
	}
	return errors.Join(errs...)
}

// noMoves ends the taking and giving up of shards, and waits for what has begun.
func (sh *shards) noMoves() {
	sh.duty.Lock() // waits for duties, which may be taking shards
	sh.Retiring.Store(true)
	sh.duty.Unlock()
	sh.Moves.Wait()
}

// reaches reports whether this node has a session with the node of that name. A shard is handed only to such a node:
// else calls to the grains of the shard would fail here.
func (sh *shards) reaches(v *member.View, id raysys.NodeID) bool {
	n, ok := v.Node(id)
	return ok && sh.c.Mesh.Peer(mesh.KeyOf(n)) != nil
}
