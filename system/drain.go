package system

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/objects"
)

// ErrDrainCancelled: an operator took the drain back (raysys drain --cancel). The node takes work again.
var ErrDrainCancelled = errors.New("the drain was taken back")

// lastCall is how long a node goes on with what runs when every worker leaves: enough for the work that is about to end, and
// for OnDeactivate. What is cut short runs again elsewhere once there are workers (raysys.Retries), or fails with ErrNodeDead.
const lastCall = 2 * time.Second

// Drained says what came of a drain.
type Drained struct {
	Took  time.Duration `json:"took_ns"`
	Left  int           `json:"left"`            // objects that other nodes keep now
	Lost  int           `json:"lost"`            // objects that others need, and that end with the node
	Why   string        `json:"why,omitempty"`   // the first of them is lost
	Error string        `json:"error,omitempty"` // what was not done in time
}

// drain is the state of a node's drains.
type drain struct {
	mu      sync.Mutex // guards the rest
	wanted  chan struct{}
	asked   bool                    // an operator asked, and did not take it back
	stop    context.CancelCauseFunc // ends the drain in progress; nil when there is none
	back    bool                    // it was taken back
	over    bool                    // it is over: the node leaves
	came    Drained                 // what came of it
	waiting []func(Drained)         // operators who want to know
}

// DrainRequested returns a channel that is closed when an operator asks this node to drain (raysys drain NODE). Main
// follows it; a program that owns its main decides itself. After a drain that was taken back the next request closes another
// channel.
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
// their grains. Close comes after it. An error says what was not done before ctx ended; it matches ErrDrainCancelled when the
// node stays. Objects that no other node could take are not an error: see Drained.
func (n *Node) Drain(ctx context.Context) error {
	if n.cluster == nil {
		return nil // there is nowhere to go
	}
	return n.cluster.drain(ctx, false)
}

// Drained says what came of the last Drain.
func (n *Node) Drained() Drained {
	n.drain.mu.Lock()
	defer n.drain.mu.Unlock()
	return n.drain.came
}

// drain moves everything off this node. requested says that it follows DrainRequested.
func (c *cluster) drain(ctx context.Context, requested bool) error {
	d := &c.node.drain
	moving, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	d.mu.Lock()
	switch {
	case d.stop != nil:
		d.mu.Unlock()
		return errors.New("drain: the node drains already")
	case requested && !d.asked: // it was taken back before it began
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

// move does the work of drain. moving ends before ctx does when there is nowhere to go, or the drain is taken back.
func (c *cluster) move(ctx, moving context.Context, stop context.CancelCauseFunc) (came Drained, err error) {
	info := c.info
	info.Draining = true
	if err := c.member.Update(ctx, info); err != nil {
		return came, fmt.Errorf("drain: announce it: %w", err)
	}
	c.poke()
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop(nil)
	watching.Go(func() { c.watchOthersLeave(moving, stop) })
	// Grains before tasks: a task that runs may wait for one of them. Objects after tasks, whose results they are, and before
	// the shards, which list them.
	err = errors.Join(c.cutShort(c.node.grains.Drain(moving)), c.cutShort(c.node.tasks.Drain(moving)))
	c.moveObjects(moving, &came)
	if errors.Is(context.Cause(moving), ErrDrainCancelled) {
		return came, err
	}
	return came, errors.Join(err, c.handOverAll(ctx))
}

// moveObjects has others keep the objects that they need.
func (c *cluster) moveObjects(ctx context.Context, came *Drained) {
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

// cutShort is no error when every worker leaves: what has no node to move to ends here.
func (c *cluster) cutShort(err error) error {
	if errors.Is(err, objects.ErrEveryoneLeaves) {
		c.log.Info("cut short", zap.Error(err))
		return nil
	}
	return err
}

// watchOthersLeave ends a drain when for lastCall no other worker could have taken anything, because all of them drain or have
// left. A worker that is the only one is not meant: its tasks are waited for.
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
		case <-c.ctx.Done(): // it was fenced
			stop(c.node.Err())
			return
		}
	}
}

// departedLately is how long a worker that drained and left counts as one that leaves with this one: services of many hosts are
// stopped within some seconds.
const departedLately = 30 * time.Second

// stay takes a drain back: the node takes grains, tasks and shards again, and says so.
func (c *cluster) stay() error {
	c.log.Info("the drain was taken back")
	c.node.grains.CancelDrain()
	c.node.tasks.CancelDrain()
	c.objects.TakeBack()
	c.retiring.Store(false)
	for {
		ctx, cancel := context.WithTimeout(c.ctx, mesh.DialTimeout)
		err := c.member.Update(ctx, c.info)
		cancel()
		if err == nil || errors.Is(err, raysys.ErrFenced) || !c.runner.Pause(100*time.Millisecond) {
			c.poke()
			return err
		}
		c.log.Warn("cannot say that the node stays; trying again", zap.Error(err))
	}
}

// handOverAll gives up every shard, and takes none any more.
func (c *cluster) handOverAll(ctx context.Context) error {
	c.duty.Lock() // a look that is under way may still take some
	c.retiring.Store(true)
	c.duty.Unlock()
	c.moves.Wait()
	var errs []error
	for n, s := range c.reg.Led() {
		if c.member.State() != member.Active {
			_ = s.Close() // there is nobody to hand it to
		} else if err := s.Release(ctx); err != nil {
			errs = append(errs, fmt.Errorf("hand over shard %d: %w", n, err))
		}
		c.reg.StepDown(n, s)
	}
	return errors.Join(errs...)
}

// askDrain tells who asked for DrainRequested; false when nobody did.
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

// cancelDrain takes back what askDrain asked for.
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

// awaitDrain calls tell once the drain that was asked for, or is in progress, is over.
func (n *Node) awaitDrain(tell func(Drained)) error {
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

// holding names what keeps a node that drains: tasks and grains, some of them.
func (c *cluster) holding() []string {
	d := &c.node.drain
	d.mu.Lock()
	draining := d.stop != nil
	d.mu.Unlock()
	if !draining {
		return nil
	}
	return append(c.node.grains.Busy(maxHolding), c.node.tasks.Busy(maxHolding)...)
}

// maxHolding bounds what holding names of each sort.
const maxHolding = 10

// fence ends the node: its session is gone, so others have or will have what it held. The links are closed by Close, and
// by the others as soon as they see it.
func (n *Node) fence(cause error) {
	n.log.Warn("fenced", zap.String("node", string(n.cfg.Name)), zap.Error(cause))
	if cause == nil {
		cause = raysys.ErrFenced
	}
	n.stop(cause)
	n.cluster.end(cause)
}

// ErrNoSuchNode: no node of that name is in the cluster.
var ErrNoSuchNode = errors.New("no such node")

// What a node tells whoever supervises its process; raysys node has the same words.
const (
	toldDraining      = "draining"
	toldStaying       = "staying"
	toldMisconfigured = "misconfigured"
)

// tellSupervisor says that the exit to come was asked for, or that none is to come.
func (c *cluster) tellSupervisor(what string) {
	if w := c.cfg.Supervisor; w != nil {
		if _, err := w.Write([]byte(what + "\n")); err != nil {
			c.log.Warn("telling the supervisor", zap.String("what", strings.TrimSpace(what)), zap.Error(err))
		}
	}
}
