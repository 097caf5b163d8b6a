package rl

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
)

const (
	turnTime  = 250 * time.Millisecond // of an actor at most: how soon the driver hears of what it did
	learnTime = 50 * time.Millisecond  // of the learner: checkpoints are made between its turns
	turnSteps = 256                    // of the learner at most
	shutWait  = 10 * time.Second       // for a table to take items
	dryWait   = 500 * time.Millisecond // for a table to have some
)

// driver is a run whose actors and learner are grains. It has the counters, and makes the calls: a grain that died with its node is
// called again, and comes back on another.
type driver struct {
	*course
	key string
	id  uint64 // tells it from another of the same key

	mu         sync.Mutex
	left       int           // steps that no actor has been given
	back       int           // of these, those that are kept back until a Point is made
	raised     chan struct{} // is closed when fewer are kept back, and made anew
	landing    bool          // no more are given
	made, over int           // steps and episodes, for checkpoints

	filed    time.Time     // when the checkpoint was last written to Plan.Dir
	fileTook time.Duration // and how long that took

	flying  atomic.Int64 // turns of actors that the driver has not heard of
	results chan any     // played, came and measured
	failed  chan error
}

func (e *Experiment) drive(ctx context.Context, plan Plan) (*Run, error) {
	if system.NodeOf(ctx) == nil {
		return nil, fmt.Errorf("%d actors are grains: %w", plan.Actors, raysys.ErrNoRuntime)
	}
	c, err := e.begin(ctx, plan)
	if err != nil {
		return nil, err
	}
	d := &driver{course: c, key: plan.Name, id: raysys.Rand(ctx).Uint64(), results: make(chan any), raised: make(chan struct{}), failed: make(chan error, 1)}
	if d.key == "" {
		d.key = fmt.Sprintf("%v/%x", system.NodeOf(ctx).Job(), d.id)
	}
	ctx = raysys.Branch(ctx, int(d.id>>1)) // of no other run: those below count from 0
	if err := d.bring(ctx); err != nil {
		return nil, err
	}
	first, err := d.learn(ctx, order{First: true})
	if err != nil {
		return nil, err
	}
	d.goOnFrom(first.EnvSteps, first.Episodes, first.Steps, first.Seconds, first.Random)
	d.made, d.over = d.now.Steps, d.now.Episodes
	run, err := d.run(ctx)
	paused := err == nil && d.paused()
	if paused && plan.Dir != "" {
		err = d.file(ctx)
	}
	d.clear(ctx, err == nil && !paused || plan.Name == "")
	if err == nil && !paused && plan.Dir != "" {
		err = removeFile(plan.file())
	}
	return run, err
}

// run has all play and learn until the steps are made or the goal is reached.
func (d *driver) run(ctx context.Context) (*Run, error) {
	if err := d.open(ctx); err != nil {
		return nil, err
	}
	defer d.record.close()
	d.left = max(0, d.plan.Until-d.now.Steps)
	if err := d.together(ctx); err != nil {
		return nil, err
	}
	d.took = time.Since(d.began)
	// What the table still allows is learned too: the same number of steps for the same number of actors' steps.
	for p := (came{Did: 1}); p.Did > 0 && !d.last.Reached; {
		var err error
		if p, err = d.learn(ctx, order{MaxSteps: turnSteps, For: learnTime, Wait: pauseLeast}); err != nil {
			return nil, err
		}
		d.learned(p.Steps, p.Loss)
	}
	last, err := d.save(ctx)
	if err != nil {
		return nil, err
	}
	d.learned(last.Steps, last.Loss)
	return d.end(func() error { return d.shut(ctx) }, func(q question) (m measured, w Weights, err error) {
		if m, err = d.evaluation(ctx, q); err != nil {
			return m, w, err
		}
		w, err = found(ctx, d, func(ctx context.Context) raysys.Ref[Weights] {
			return raysys.Lookup[Weights](ctx, weightsName(d.e, d.key))
		})
		return m, w, err
	})
}

// shut is why the learner cannot sample. A table that says why does so at once; on a machine with load it takes longer to come to that.
func (d *driver) shut(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*dryWait)
	defer cancel()
	_, err := d.e.replay.Get(d.key).Sample(ctx, d.e.x.Table.Name, d.e.x.Batch)
	return err
}

// together runs actors and learner, and hears what they did.
func (d *driver) together(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	actors := max(1, d.plan.Actors)
	first := uint64(d.now.Steps) // a run that goes on has made fewer turns than steps
	d.hold(false)                // before actors take their first steps
	for i := range actors {
		branch := raysys.Branch(ctx, i)
		all.Go(func() { d.report(ctx, d.actor(branch, i, first)) })
	}
	branch := raysys.Branch(ctx, actors)
	all.Go(func() { d.report(ctx, d.learner(branch)) })
	var waiting []Point // that are due: the first is evaluated
	for d.hold(false); d.goes() || len(waiting) > 0; d.hold(len(waiting) > 0) {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-d.failed:
			return err
		case r := <-d.results:
			d.hear(r)
			if m, ok := r.(measured); ok {
				if err := d.points(waiting, m); err != nil {
					return err
				}
				waiting = nil
			}
		}
		if d.last.Reached || !d.due() || len(waiting) > 0 && d.holds() { // a point after that of the goal would hide it
			continue
		}
		p := d.mark()
		if len(waiting) > 0 {
			waiting = append(waiting, p)
		} else if d.evaluates() {
			waiting = append(waiting, p)
			q := d.question(false)
			branch := raysys.Branch(ctx, actors+int(d.count))
			all.Go(func() {
				m, err := d.evaluation(branch, q)
				if err == nil {
					d.tell(ctx, m)
				}
				d.report(ctx, err)
			})
		} else if err := d.point(p, unmeasured); err != nil {
			return err
		}
	}
	d.land(ctx)
	return nil
}

// points makes the points that waited for the evaluation of the first. None is made after that which reached the goal.
func (d *driver) points(waiting []Point, m measured) error {
	for _, p := range waiting {
		if err := d.point(p, m); err != nil || m.Reached {
			return err
		}
		m = unmeasured
	}
	return nil
}

// hold keeps back steps, so that a Point is evaluated before the steps of the next one are made: while one is, those after the next Point; where the next
// may be, those after the one that follows it. A run that evaluates nothing waits for nothing.
func (d *driver) hold(evaluating bool) {
	back := 0
	if evaluating {
		back = max(0, d.plan.Until-d.next)
	} else if d.looks() {
		back = max(0, d.plan.Until-d.next-d.plan.Every)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if back < d.back {
		close(d.raised)
		d.raised = make(chan struct{})
	}
	d.back = back
}

// holds reports whether no actor has steps after the next Point: it waits for the evaluation of the one before.
func (d *driver) holds() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.plan.Until-d.left <= d.next
}

// land hears of the turns that actors are in when the goal is reached: their steps are made, and count.
func (d *driver) land(ctx context.Context) {
	d.mu.Lock()
	d.landing = true
	d.mu.Unlock()
	late := time.NewTimer(shutWait)
	defer late.Stop()
	for d.flying.Load() > 0 {
		select {
		case r := <-d.results:
			d.hear(r)
		case <-late.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// hear counts what an actor or the learner did.
func (d *driver) hear(r any) {
	switch r := r.(type) {
	case played:
		d.flying.Add(-1)
		d.played(r)
	case came:
		d.learned(r.Steps, r.Loss)
	}
}

// report ends the run with an error, the first one.
func (d *driver) report(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		select {
		case d.failed <- err:
		default:
		}
	}
}

func (d *driver) tell(ctx context.Context, r any) {
	select {
	case d.results <- r:
	case <-ctx.Done():
	}
}

// give hands out steps, so that all actors together make as many as the plan says; fewer than 0 are given back. Where it has none, more may be there once the
// channel is closed.
func (d *driver) give(most int) (n int, raised <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n = most; most > 0 {
		n = max(0, min(most, d.left-d.back))
	}
	if d.landing && n > 0 {
		n = 0
	}
	d.left -= n
	return n, d.raised
}

// actor has one actor play, turn after turn, until no steps are left or ctx ends. first is the number of its first turn.
func (d *driver) actor(ctx context.Context, i int, first uint64) error {
	share := min(d.e.x.turn(max(1, d.plan.Actors)), d.plan.Every) // a turn makes one Point at most
	g := d.e.actors.Get(actorKey(d.key, i))
	var failed failures
	for attempt := first; ctx.Err() == nil; attempt++ {
		n, raised := d.give(share)
		if n == 0 {
			select {
			case <-raised:
			case <-time.After(pauseLeast): // another may have given back what it could not make
			case <-ctx.Done():
			}
			continue
		}
		s := stint{Run: d.key, Seed: d.plan.Seed, Actor: uint64(i), Attempt: attempt, Steps: n, For: turnTime, Wait: shutWait}
		d.flying.Add(1)
		p, err := d.e.play.Call(ctx, g, s).Get(ctx)
		d.give(p.Steps - n)
		if err == nil {
			failed = 0
			d.tell(ctx, p)
			continue
		}
		d.flying.Add(-1)
		if err := failed.another(ctx, err); err != nil {
			return err
		}
	}
	return nil
}

// learner has the learner learn, turn after turn.
func (d *driver) learner(ctx context.Context) error {
	for ctx.Err() == nil {
		p, err := d.learn(ctx, order{MaxSteps: turnSteps, For: learnTime, Wait: dryWait})
		if err != nil {
			return err
		}
		if p.Due {
			if p, err = d.save(ctx); err != nil {
				return err
			}
		}
		d.tell(ctx, p)
	}
	return nil
}

// bring gives the learner the checkpoint of Plan.Dir, where there is one.
func (d *driver) bring(ctx context.Context) error {
	if d.plan.Dir == "" {
		return nil
	}
	c, err := loadCheckpoint(d.plan.file())
	if err != nil || c.Model == "" {
		return err
	}
	if err := c.of(d.plan.Dir, d.plan.Seed); err != nil {
		return err
	}
	_, err = again(ctx, func(ctx context.Context) grains.Done { return d.e.keep.Call(ctx, d.e.learners.Get(d.key), c) })
	return err
}

// save has the learner make a checkpoint between two of its turns, with the steps that were made by then. At most, it lacks those of the turns that actors
// are in.
func (d *driver) save(ctx context.Context) (came, error) {
	p, err := d.learn(ctx, order{Save: true})
	if began := time.Now(); err == nil && d.plan.Dir != "" && began.Sub(d.filed) >= rest*d.fileTook {
		err = d.file(ctx)
		d.filed, d.fileTook = time.Now(), time.Since(began)
	}
	return p, err
}

// file writes the learner's checkpoint to Plan.Dir.
func (d *driver) file(ctx context.Context) error {
	c, err := again(ctx, func(ctx context.Context) raysys.Ref[checkpoint] { return d.e.kept.Call(ctx, d.e.learners.Get(d.key)) })
	if err == nil {
		c.Learner, err = c.bytes(ctx)
	}
	if err != nil {
		return err
	}
	return c.save(d.plan.file())
}

// learn is one turn of the learner, again where it failed with its node.
func (d *driver) learn(ctx context.Context, o order) (came, error) {
	o.Run, o.Driver, o.Spec, o.Seed = d.key, d.id, d.spec, d.plan.Seed
	d.mu.Lock()
	o.EnvSteps, o.Episodes = d.made, d.over
	d.mu.Unlock()
	o.Seconds, o.Random = d.seconds(), d.known()
	return again(ctx, func(ctx context.Context) raysys.Ref[came] { return d.e.learn.Call(ctx, d.e.learners.Get(d.key), o) })
}

// evaluation has a grain of its own, on whichever node has room.
func (d *driver) evaluation(ctx context.Context, q question) (measured, error) {
	q.Run = d.key
	return found(ctx, d, func(ctx context.Context) raysys.Ref[measured] {
		return d.e.answers.Call(ctx, d.e.actors.Get(d.key+"/evaluator"), q)
	})
}

// found makes a call that needs the weights, as again does. They are lost with the node of the learner, until a call wakes it on another.
func found[T any](ctx context.Context, d *driver, call func(context.Context) raysys.Ref[T]) (T, error) {
	wake := false
	return again(ctx, func(ctx context.Context) raysys.Ref[T] {
		if wake {
			_, _ = d.learn(ctx, order{}) // where it fails, so does the call
		}
		wake = true
		return call(ctx)
	})
}

func (d *driver) played(r played) {
	d.acted(r.Steps, r.Episodes...)
	d.now.Age = max(0, d.now.LearnerSteps-r.Acted)
	d.mu.Lock()
	d.made, d.over = d.now.Steps, d.now.Episodes
	d.mu.Unlock()
}

// clear lets go of what the run has on the nodes: of its actors, with their environments, and of what it would go on from where it is over. An error
// leaves memory behind and nothing else.
func (d *driver) clear(ctx context.Context, over bool) {
	// What is called from a ctx that was cancelled is cancelled, too: these calls are of another driver.
	ctx, cancel := context.WithTimeout(system.NodeOf(ctx).Context(context.Background()), shutWait)
	defer cancel()
	var list []grains.Done
	for i := range max(1, d.plan.Actors) {
		list = append(list, d.e.leave.Call(ctx, d.e.actors.Get(actorKey(d.key, i))))
	}
	list = append(list, d.e.leave.Call(ctx, d.e.actors.Get(d.key+"/evaluator")))
	_, err := raysys.GetAll(ctx, list).Values()
	if over {
		err = errors.Join(err, d.e.forget(ctx, d.key))
	}
	if err != nil {
		system.NodeOf(ctx).Log().Warn("the end of a run of rl left something behind", "run", d.key, "error", err)
	}
}
