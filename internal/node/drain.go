package node

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
	"github.com/raysys/raysys/internal/backoff"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/lineage"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/objects"
	"github.com/raysys/raysys/internal/taskengine"
)

// ErrDrainCancelled: an operator cancelled the drain (raysys drain --cancel). The node takes work again.
var ErrDrainCancelled = errors.New("the drain was cancelled")

// lastCall is how long a node goes on with its work when every worker leaves: enough for work that is about to end, and
// for OnDeactivate. Work that is cut short runs again elsewhere once there are workers (raysys.Retries), or fails with
// ErrNodeDead.
const lastCall = 2 * time.Second

// Drain is what a node knows of its drains, and drains it.
type Drain struct {
	c *Cluster // nil without one

	mu      sync.Mutex // guards the rest
	wanted  chan struct{}
	asked   bool                    // an operator asked for a drain, and did not cancel it
	how     DrainRequest            // what the operator asked for
	stop    context.CancelCauseFunc // ends the drain in progress; nil when there is none
	back    bool                    // the drain in progress was cancelled
	over    bool                    // the drain is over: the node leaves
	came    inspect.Drained         // the outcome of the last drain
	waiting []func(inspect.Drained) // operators that wait for the outcome
}

// DrainRequest is how a node leaves that an operator asks to drain.
type DrainRequest struct {
	// Restart: the supervisor of the process starts the program again. Otherwise the end of the process is final.
	Restart bool `json:"restart"`
	// KeepJobs: a restart waits for named tasks as a drain does. Otherwise they begin again on another node: see jobs.
	KeepJobs bool `json:"keep_jobs,omitempty"`
	// Jobs are the ids of named tasks which this node runs for others: only their submitters know that they have names.
	Jobs []raysys.TaskID `json:"jobs,omitempty"`
}

// word is what the supervisor is told of it.
func (l DrainRequest) word() string {
	if l.Restart {
		return toldRestarting
	}
	return toldDraining
}

// Requested returns a channel that is closed when an operator asks this node to drain. After a drain that was cancelled the next
// request closes another channel.
func (d *Drain) Requested() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.wanted == nil {
		d.wanted = make(chan struct{})
	}
	return d.wanted
}

// Outcome returns that of the last drain.
func (d *Drain) Outcome() inspect.Drained {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.came
}

// Run moves all work and objects off this node. requested says that an operator asked for it: see Requested. Without a cluster there is
// no other node, and nothing to do.
func (d *Drain) Run(ctx context.Context, requested bool) error {
	c := d.c
	if c == nil {
		return nil
	}
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
	c.tellSupervisor(d.how.word())
	how := d.how
	d.mu.Unlock()

	c.Log.Info("draining", zap.Bool("restarts", how.Restart))
	end, _ := ctx.Deadline()
	c.parts.Job.Leave.Begin(end)
	begin := time.Now()
	came, err := d.move(ctx, moving, stop)
	came.Took = time.Since(begin)
	if err != nil {
		came.Error = err.Error()
	}

	d.mu.Lock()
	d.stop = nil
	if d.back {
		d.mu.Unlock()
		return errors.Join(ErrDrainCancelled, d.stay())
	}
	if errors.Is(context.Cause(moving), objects.ErrEveryoneLeaves) { // the State of an OnDeactivate gets no leader
		c.Runner.After(lastCall, func() {
			c.Registry.Close(fmt.Errorf("%w: every worker of the cluster leaves", raysys.ErrUnreachable))
		})
	}
	d.over, d.came = true, came
	waiting := d.waiting
	d.waiting = nil
	d.mu.Unlock()
	for _, tell := range waiting {
		tell(came)
	}
	c.Log.Info("drained", zap.Duration("took", came.Took), zap.Int("objects_left", came.Left), zap.Int("objects_lost", came.Lost), zap.Error(err))
	return err
}

// move does the work of drain. moving ends before ctx does when no other node can take anything, or the drain is
// cancelled.
func (d *Drain) move(ctx, moving context.Context, stop context.CancelCauseFunc) (came inspect.Drained, err error) {
	if err := d.c.Member.Update(ctx, func(i *member.Info) { i.Draining = true }); err != nil {
		return came, fmt.Errorf("drain: announce it: %w", err)
	}
	d.c.Poke()
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop(nil)
	watching.Go(func() { d.watchOthersLeave(moving, stop) })
	// Grains before tasks: a task that runs may wait for one of them. Objects after tasks, whose results they are, and
	// before the shards, which list them.
	// Bundles first: grains and tasks in them go to where they are.
	if left := d.c.groups.Drain(moving, lastCall); left > 0 {
		d.c.Log.Info("bundles of placement groups find no room elsewhere, and wait for it when this node has left", zap.Int("bundles", left))
	}
	err = errors.Join(d.cutShort(d.c.grains.Drain(moving)), d.cutShort(d.drainTasks(moving)))
	d.moveObjects(moving, &came)
	if errors.Is(context.Cause(moving), ErrDrainCancelled) {
		return came, err
	}
	return came, errors.Join(err, d.c.Shards.handOverAll(ctx))
}

// drainTasks waits until no task is left here. Its error names those with names: another worker runs them again once this node has left.
// A restart does not wait for these.
func (d *Drain) drainTasks(ctx context.Context) error {
	left, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	d.mu.Lock()
	how := d.how
	d.mu.Unlock()
	if how.Restart && !how.KeepJobs {
		d.c.Runner.Run(func() { d.leaveJobs(left, how.Jobs, stop) })
	}
	err := d.c.tasks.Drain(left)
	if errors.Is(context.Cause(left), errJobsLeft) {
		d.c.Log.Info("named tasks begin again on another node",
			zap.Strings("tasks", d.unsettled()), zap.Stringers("of_others", how.Jobs))
		return nil
	}
	if named := d.unsettled(); err != nil && named != nil {
		err = fmt.Errorf("%w; a worker that stays begins again: %s", err, strings.Join(named, ", "))
	}
	return err
}

// errJobsLeft ends the wait for tasks of a node that restarts.
var errJobsLeft = errors.New("only named tasks are left, and what they have submitted")

// leaveJobs calls stop once, after lastCall, only named tasks are left here, or work that they have submitted: those of
// this node, and jobs, which it runs for others. The records of its own say before that the end of this node is no fault
// of theirs.
func (d *Drain) leaveJobs(ctx context.Context, jobs []raysys.TaskID, stop context.CancelCauseFunc) {
	left := map[raysys.TaskID]bool{}
	for pause := lastCall; backoff.Wait(ctx, pause); pause = lastCall / 20 {
		if pause == lastCall && d.c.Lineage != nil {
			jobs = append(lineage.Excuse(ctx, d.c.Lineage), jobs...)
		}
		for _, id := range jobs {
			left[id] = true
		}
		others, inbound := false, 0
		taskengine.EachTask(d.c.tasks, func(t taskengine.Seen) {
			switch {
			case taskengine.JoinedOf(t.Future) != nil: // no drain waits for it
			case !left[t.Future.ID()] && !core.Under(t.Future.Up(), left):
				others = true
			case t.Peer != "" && t.Stage != core.StageSent:
				inbound++
			}
		})
		if len(left) > 0 && !others && d.c.tasks.Load().Inbound <= inbound { // else an answer is on its way
			stop(errJobsLeft)
			return
		}
	}
}

// moveObjects has other nodes keep the objects that they need.
func (d *Drain) moveObjects(ctx context.Context, came *inspect.Drained) {
	var why error
	came.Left, came.Lost, why = d.c.objects.Drain(ctx)
	switch {
	case came.Lost == 0:
	case errors.Is(why, objects.ErrEveryoneLeaves):
		d.c.Log.Warn("objects that others need are lost with this node: every worker of the cluster leaves", zap.Int("objects", came.Lost))
	default:
		came.Why = why.Error()
		if !errors.Is(context.Cause(ctx), ErrDrainCancelled) {
			d.c.Log.Warn("objects that others need are lost with this node", zap.Int("objects", came.Lost),
				zap.Int("of", came.Left+came.Lost), zap.Error(why))
		}
	}
}

// cutShort returns nil for an error that every worker leaves: work that has no node to move to ends here, as it must.
func (d *Drain) cutShort(err error) error {
	if errors.Is(err, objects.ErrEveryoneLeaves) {
		d.c.Log.Info("work is cut short", zap.Error(err))
		return nil
	}
	return err
}

// watchOthersLeave ends a drain when for lastCall no other worker could have taken anything, because all of them drain
// or have left. A worker that was the only one all the time waits for its tasks.
func (d *Drain) watchOthersLeave(ctx context.Context, stop context.CancelCauseFunc) {
	left := d.c.departed.Load() != 0 && time.Duration(d.c.Runner.Now()-d.c.departed.Load()) < departedLately
	var out <-chan time.Time
	for {
		view := d.c.Member.View()
		takers := false
		for _, n := range view.Nodes() {
			if worker := n.Info.Role != member.Driver || n.Info.Serves; worker && mesh.KeyOf(n) != d.c.Self() {
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
		case <-d.c.ctx.Done(): // the node was fenced
			stop(d.c.parts.Ended())
			return
		}
	}
}

// departedLately is how long a worker that drained and left counts as one that leaves together with this node: the
// services of many hosts are stopped within seconds.
const departedLately = 30 * time.Second

// stay ends a cancelled drain: the node takes grains, tasks and shards again, and announces that.
func (d *Drain) stay() error {
	d.c.Log.Info("the drain was cancelled")
	d.c.parts.Job.Leave.TakeBack()
	d.c.grains.CancelDrain()
	d.c.tasks.CancelDrain()
	d.c.groups.Bundles.Leave(nil)
	d.c.objects.TakeBack()
	d.c.Shards.Retiring.Store(false)
	for {
		ctx, cancel := context.WithTimeout(d.c.ctx, mesh.DialTimeout)
		err := d.c.Member.Update(ctx, func(i *member.Info) { i.Draining = false })
		cancel()
		if err == nil || errors.Is(err, raysys.ErrFenced) || !d.c.Runner.Pause(100*time.Millisecond) {
			d.c.Poke()
			return err
		}
		d.c.Log.Warn("cannot announce that the node stays; trying again", zap.Error(err))
	}
}

// Ask closes the channel of Requested. A drain that is asked for while a restart goes on makes that the node's end. The
// error says why the node does not leave, or cannot come back.
func (d *Drain) Ask(how DrainRequest) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.wanted == nil:
		return errors.New("its program does not drain on request: send it SIGTERM")
	case how.Restart && d.c.cfg.Supervisor == nil:
		return errors.New("nothing would start its program again: raysys node does not keep it")
	case how.Restart && (d.asked || d.stop != nil || d.over):
		return errors.New("it drains already")
	}
	if !d.asked || d.how.Restart {
		d.how = how
		d.c.tellSupervisor(how.word())
	}
	if !d.asked {
		d.asked = true
		close(d.wanted)
	}
	return nil
}

// Kept reports whether the node can restart: its program drains on request, and a supervisor would start it again.
func (d *Drain) Kept() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.wanted != nil && d.c != nil && d.c.cfg.Supervisor != nil
}

// Asked reports whether an operator has asked for the drain, and has not cancelled it.
func (d *Drain) Asked() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked
}

// Cancel cancels the drain that Ask asked for.
func (d *Drain) Cancel() error {
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
	d.asked, d.how, d.wanted = false, DrainRequest{}, make(chan struct{})
	d.c.tellSupervisor(toldStaying)
	if d.stop != nil {
		d.back = true
		d.stop(ErrDrainCancelled)
	}
	return nil
}

// Await calls tell with the outcome once the drain that was asked for, or is in progress, is over.
func (d *Drain) Await(tell func(inspect.Drained)) error {
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

// Holding names some of the tasks and grains that keep a node which drains.
func (d *Drain) Holding() []string {
	d.mu.Lock()
	draining := d.stop != nil
	d.mu.Unlock()
	if !draining {
		return nil
	}
	return slices.Concat(d.c.grains.Busy(maxHolding), d.unsettled(), d.c.tasks.Busy(maxHolding))
}

// unsettled names some of the detached tasks with names that this node has submitted or taken over: it waits for them.
func (d *Drain) unsettled() (names []string) {
	if d.c.Lineage == nil {
		return nil
	}
	list := d.c.Lineage.ListTasks()
	for _, j := range list[:min(len(list), maxHolding)] {
		names = append(names, j.String())
	}
	if more := len(list) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d named tasks more", more))
	}
	return names
}

// maxHolding bounds the grains, the named tasks and the tasks of others that Holding names.
const maxHolding = 10

// What a node tells the supervisor of its process; raysys node has the same words.
const (
	toldDraining      = "draining"
	toldRestarting    = "restarting"
	toldStaying       = "staying"
	ToldMisconfigured = "misconfigured"
)

// tellSupervisor tells the supervisor that the coming exit was asked for, or that the process will not exit.
func (c *Cluster) tellSupervisor(what string) {
	if w := c.cfg.Supervisor; w != nil {
		if _, err := w.Write([]byte(what + "\n")); err != nil {
			c.Log.Warn("cannot tell the supervisor", zap.String("what", strings.TrimSpace(what)), zap.Error(err))
		}
	}
}
