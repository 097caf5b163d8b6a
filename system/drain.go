package system

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/objects"
	"github.com/raysys/raysys/internal/operate"
)

// ErrDrainCancelled: an operator cancelled the drain (raysys drain --cancel). The node takes work again.
var ErrDrainCancelled = operate.ErrDrainCancelled

// ErrNoSuchNode: no node of that name is in the cluster.
var ErrNoSuchNode = operate.ErrNoSuchNode

// lastCall is how long a node goes on with its work when every worker leaves: enough for work that is about to end, and
// for OnDeactivate. Work that is cut short runs again elsewhere once there are workers (raysys.Retries), or fails with
// ErrNodeDead.
const lastCall = 2 * time.Second

// drain is the state of a node's drains.
type drain struct {
	mu      sync.Mutex // guards the rest
	wanted  chan struct{}
	asked   bool                    // an operator asked for a drain, and did not cancel it
	stop    context.CancelCauseFunc // ends the drain in progress; nil when there is none
	back    bool                    // the drain in progress was cancelled
	over    bool                    // the drain is over: the node leaves
	came    inspect.Drained         // the outcome of the last drain
	waiting []func(inspect.Drained) // operators that wait for the outcome
}

// DrainRequested returns a channel that is closed when an operator asks this node to drain (raysys drain NODE). Main
// follows it; a program that owns its main decides itself. After a drain that was cancelled the next request closes
// another channel.
func (n *Node) DrainRequested() <-chan struct{} {
	d := &n.drain
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.wanted == nil {
		d.wanted = make(chan struct{})
	}
	return d.wanted
}

// Drain makes the node ready to leave its cluster: it takes nothing new, hands over its shards, moves its grains and
// returns tasks that have not started to their owners, and waits for the running ones. Calls are not lost: they follow
// their grains. Close comes after it. An error says what was not done before ctx ended; it matches ErrDrainCancelled
// when the node stays. Objects that no other node could take are not an error: see Drained.
func (n *Node) Drain(ctx context.Context) error {
	if n.cluster == nil {
		return nil // there is no other node
	}
	return n.cluster.drain(ctx, false)
}

// Drained returns the outcome of the last Drain.
func (n *Node) Drained() inspect.Drained {
	n.drain.mu.Lock()
	defer n.drain.mu.Unlock()
	return n.drain.came
}

// drain moves all work and objects off this node. requested says that an operator asked for it: see DrainRequested.
func (c *cluster) drain(ctx context.Context, requested bool) error {
	d := &c.node.drain
	moving, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	d.mu.Lock()
	switch {
	case d.stop != nil:
		d.mu.Unlock()
		return errors.New("drain: the node drains already")
	case requested && !d.asked: // the request was cancelled before the drain began
		d.mu.Unlock()
		return ErrDrainCancelled
	}
	d.stop, d.back, d.over = stop, false, false
	d.mu.Unlock()

	c.log.Info("draining")
	c.tellSupervisor(toldDraining)
	begin := time.Now()
	came, err := c.move(ctx, moving, stop)
	came.Took = time.Since(begin)
	if err != nil {
		came.Error = err.Error()
	}

	d.mu.Lock()
	d.stop = nil
	if d.back {
		d.mu.Unlock()
		return errors.Join(ErrDrainCancelled, c.stay())
	}
	d.over, d.came = true, came
	waiting := d.waiting
	d.waiting = nil
	d.mu.Unlock()
	for _, tell := range waiting {
		tell(came)
	}
	c.log.Info("drained", zap.Duration("took", came.Took), zap.Int("objects_left", came.Left), zap.Int("objects_lost", came.Lost), zap.Error(err))
	return err
}

// move does the work of drain. moving ends before ctx does when no other node can take anything, or the drain is
// cancelled.
func (c *cluster) move(ctx, moving context.Context, stop context.CancelCauseFunc) (came inspect.Drained, err error) {
	if err := c.member.Update(ctx, func(i *member.Info) { i.Draining = true }); err != nil {
		return came, fmt.Errorf("drain: announce it: %w", err)
	}
	c.poke()
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop(nil)
	watching.Go(func() { c.watchOthersLeave(moving, stop) })
	// Grains before tasks: a task that runs may wait for one of them. Objects after tasks, whose results they are, and
	// before the shards, which list them.
	// Bundles first: grains and tasks in them go to where they are.
	if left := c.node.groups.Drain(moving, lastCall); left > 0 {
		c.log.Info("bundles of placement groups find no room elsewhere, and wait for it when this node has left", zap.Int("bundles", left))
	}
	err = errors.Join(c.cutShort(c.node.grains.Drain(moving)), c.cutShort(c.drainTasks(moving)))
	c.moveObjects(moving, &came)
	if errors.Is(context.Cause(moving), ErrDrainCancelled) {
		return came, err
	}
	return came, errors.Join(err, c.handOverAll(ctx))
}

// drainTasks waits until no task is left here. Its error names those with names: another worker runs them again once this node has left.
func (c *cluster) drainTasks(ctx context.Context) error {
	err := c.node.tasks.Drain(ctx)
	if named := c.unsettled(); err != nil && named != nil {
		err = fmt.Errorf("%w; a worker that stays begins again: %s", err, strings.Join(named, ", "))
	}
	return err
}

// moveObjects has other nodes keep the objects that they need.
func (c *cluster) moveObjects(ctx context.Context, came *inspect.Drained) {
	var why error
	came.Left, came.Lost, why = c.objects.Drain(ctx)
	switch {
	case came.Lost == 0:
	case errors.Is(why, objects.ErrEveryoneLeaves):
		c.log.Warn("objects that others need are lost with this node: every worker of the cluster leaves", zap.Int("objects", came.Lost))
	default:
		came.Why = why.Error()
		if !errors.Is(context.Cause(ctx), ErrDrainCancelled) {
			c.log.Warn("objects that others need are lost with this node", zap.Int("objects", came.Lost),
				zap.Int("of", came.Left+came.Lost), zap.Error(why))
		}
	}
}

// cutShort returns nil for an error that every worker leaves: work that has no node to move to ends here, as it must.
func (c *cluster) cutShort(err error) error {
	if errors.Is(err, objects.ErrEveryoneLeaves) {
		c.log.Info("work is cut short", zap.Error(err))
		return nil
	}
	return err
}

// watchOthersLeave ends a drain when for lastCall no other worker could have taken anything, because all of them drain
// or have left. A worker that was the only one all the time waits for its tasks.
func (c *cluster) watchOthersLeave(ctx context.Context, stop context.CancelCauseFunc) {
	left := c.departed.Load() != 0 && time.Duration(c.now()-c.departed.Load()) < departedLately
	var out <-chan time.Time
	for {
		view := c.member.View()
		takers := false
		for _, n := range view.Nodes() {
			if worker := n.Info.Role != member.Driver || n.Info.Serves; worker && mesh.KeyOf(n) != c.self() {
				takers = takers || !n.Info.Draining && !n.Suspect
				left = left || n.Info.Draining
			}
		}
		switch {
		case takers || !left:
			out = nil
		case out == nil:
			t := time.NewTimer(lastCall)
			defer t.Stop()
			out = t.C
		}
		select {
		case <-view.Changed():
		case <-out:
			stop(objects.ErrEveryoneLeaves)
			return
		case <-ctx.Done():
			return
		case <-c.ctx.Done(): // the node was fenced
			stop(c.node.Err())
			return
		}
	}
}

// departedLately is how long a worker that drained and left counts as one that leaves together with this node: the
// services of many hosts are stopped within seconds.
const departedLately = 30 * time.Second

// stay ends a cancelled drain: the node takes grains, tasks and shards again, and announces that.
func (c *cluster) stay() error {
	c.log.Info("the drain was cancelled")
	c.node.grains.CancelDrain()
	c.node.tasks.CancelDrain()
	c.node.groups.Bundles.Leave(nil)
	c.objects.TakeBack()
	c.retiring.Store(false)
	for {
		ctx, cancel := context.WithTimeout(c.ctx, mesh.DialTimeout)
		err := c.member.Update(ctx, func(i *member.Info) { i.Draining = false })
		cancel()
		if err == nil || errors.Is(err, raysys.ErrFenced) || !c.runner.Pause(100*time.Millisecond) {
			c.poke()
			return err
		}
		c.log.Warn("cannot announce that the node stays; trying again", zap.Error(err))
	}
}

// handOverAll gives up every shard, and takes none any more.
func (c *cluster) handOverAll(ctx context.Context) error {
	c.noMoves()
	var errs []error
	for n, s := range c.reg.Led() {
		if c.member.State() != member.Active {
			_ = s.Close() // without a lease this node cannot release the shard
		} else if err := s.Release(ctx); err != nil {
			errs = append(errs, fmt.Errorf("hand over shard %d: %w", n, err))
		}
		c.reg.StepDown(n, s)
	}
	return errors.Join(errs...)
}

// noMoves ends the taking and giving up of shards, and waits for what has begun.
func (c *cluster) noMoves() {
	c.duty.Lock() // waits for duties, which may be taking shards
	c.retiring.Store(true)
	c.duty.Unlock()
	c.moves.Wait()
}

// askDrain closes the channel of DrainRequested; false when the program never called that.
func (n *Node) askDrain() bool {
	d := &n.drain
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.wanted == nil {
		return false
	}
	if !d.asked {
		d.asked = true
		close(d.wanted)
		n.cluster.tellSupervisor(toldDraining)
	}
	return true
}

// cancelDrain cancels the drain that askDrain asked for.
func (n *Node) cancelDrain() error {
	d := &n.drain
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.over:
		return errors.New("it has drained, and leaves")
	case !d.asked && d.stop != nil:
		return errors.New("it drains because of a signal, or by its own program, and cannot stay")
	case !d.asked:
		return errors.New("it does not drain")
	}
	d.asked, d.wanted = false, make(chan struct{})
	n.cluster.tellSupervisor(toldStaying)
	if d.stop != nil {
		d.back = true
		d.stop(ErrDrainCancelled)
	}
	return nil
}

// awaitDrain calls tell with the outcome once the drain that was asked for, or is in progress, is over.
func (n *Node) awaitDrain(tell func(inspect.Drained)) error {
	d := &n.drain
	d.mu.Lock()
	switch {
	case d.over:
		came := d.came
		d.mu.Unlock()
		tell(came)
		return nil
	case !d.asked && d.stop == nil:
		d.mu.Unlock()
		return errors.New("it does not drain")
	}
	d.waiting = append(d.waiting, tell)
	d.mu.Unlock()
	return nil
}

// holding names some of the tasks and grains that keep a node which drains.
func (c *cluster) holding() []string {
	d := &c.node.drain
	d.mu.Lock()
	draining := d.stop != nil
	d.mu.Unlock()
	if !draining {
		return nil
	}
	return slices.Concat(c.node.grains.Busy(maxHolding), c.unsettled(), c.node.tasks.Busy(maxHolding))
}

// unsettled names some of the detached tasks with names that this node has submitted or taken over: it waits for them.
func (c *cluster) unsettled() (names []string) {
	if c.lineage == nil {
		return nil
	}
	list := c.lineage.ListTasks()
	for _, j := range list[:min(len(list), maxHolding)] {
		names = append(names, j.String())
	}
	if more := len(list) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d named tasks more", more))
	}
	return names
}

// maxHolding bounds the grains, the named tasks and the tasks of others that holding names.
const maxHolding = 10

// fence ends the node. Its session is gone, so other nodes have taken over its shards and grains, or will. Close closes
// its connections, and so do the other nodes as soon as they see that it is gone.
func (n *Node) fence(cause error) {
	n.log.Warn("fenced", zap.String("node", string(n.cfg.Name)), zap.Error(cause))
	if cause == nil {
		cause = raysys.ErrFenced
	}
	n.stop(cause)
	n.cluster.end(cause)
}

// What a node tells the supervisor of its process; raysys node has the same words.
const (
	toldDraining      = "draining"
	toldStaying       = "staying"
	toldMisconfigured = "misconfigured"
)

// tellSupervisor tells the supervisor that the coming exit was asked for, or that the process will not exit.
func (c *cluster) tellSupervisor(what string) {
	if w := c.cfg.Supervisor; w != nil {
		if _, err := w.Write([]byte(what + "\n")); err != nil {
			c.log.Warn("cannot tell the supervisor", zap.String("what", strings.TrimSpace(what)), zap.Error(err))
		}
	}
}
