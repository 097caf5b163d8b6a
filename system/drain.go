package system

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system/member"
)

// drain moves everything off this node.
func (c *cluster) drain(ctx context.Context) error {
	c.log.Info("draining")
	begin := time.Now()
	info := c.info
	info.Draining = true
	if err := c.member.Update(ctx, info); err != nil {
		return fmt.Errorf("drain: announce it: %w", err)
	}
	c.poke()
	// Grains before tasks: a task that runs may wait for one of them. Objects after tasks, whose results they are, and before
	// the shards, which list them.
	err := errors.Join(c.node.grains.Drain(ctx), c.node.tasks.Drain(ctx), c.objects.drain(ctx), c.handOverAll(ctx))
	c.log.Info("drained", zap.Duration("took", time.Since(begin)), zap.Error(err))
	return err
}

// handOverAll gives up every shard, and takes none any more.
func (c *cluster) handOverAll(ctx context.Context) error {
	c.duty.Lock() // a look that is under way may still take some
	c.retiring.Store(true)
	c.duty.Unlock()
	c.moves.Wait()
	var errs []error
	for n, s := range c.reg.leads() {
		if c.member.State() != member.Active {
			_ = s.Close() // there is nobody to hand it to
		} else if err := s.Release(ctx); err != nil {
			errs = append(errs, fmt.Errorf("hand over shard %d: %w", n, err))
		}
		c.reg.unlead(n, s)
	}
	return errors.Join(errs...)
}

// fence ends the node: its session is gone, so others have or will have what it held. The links are closed by Close, and
// by the others as soon as they see it.
func (n *Node) fence(cause error) {
	n.log.Warn("fenced", zap.String("node", string(n.cfg.Name)), zap.Error(cause))
	if cause == nil {
		cause = raysys.ErrFenced
	}
	n.stop(cause)
	n.others.end(cause)
}

// DrainRequested returns a channel that is closed when an operator asks this node to drain (raysys drain NODE). Main
// follows it; a program that owns its main decides itself.
func (n *Node) DrainRequested() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.wanted == nil {
		n.wanted = make(chan struct{})
	}
	return n.wanted
}

// askDrain tells who asked for DrainRequested; false when nobody did.
func (n *Node) askDrain() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.wanted == nil {
		return false
	}
	select {
	case <-n.wanted:
	default:
		close(n.wanted)
	}
	return true
}

// ErrNoSuchNode: no node of that name is in the cluster.
var ErrNoSuchNode = errors.New("no such node")
