package rl

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/grains/replay"
)

// rest is how many times as long as it took nothing is published, or saved, after it was: a large net costs the learner no more than that part of
// its time.
const rest = 10

// checkpoint is what a run goes on from. What the replay table holds is no part of it.
type checkpoint struct {
	Model    string
	Seed     uint64
	Learner  []byte
	Steps    int // of the learner
	EnvSteps int
	Episodes int
	Seconds  float64              // that the run has taken
	Random   []float64            // the mean return of random actions; empty where it is not known
	Object   []raysys.Ref[[]byte] // has Learner, where the nodes have no directories
}

// learnerGrain is the learner of a run. Its key is that of the run.
type learnerGrain struct {
	saved grains.State[checkpoint]

	driver                uint64  // the last that began
	learner               Learner // nil before the first call of an activation
	steps                 int
	loss                  float64
	table                 *replay.Client[Trajectory]
	batches               *replay.Sampler[Trajectory]
	updates               chan error // of the priorities that are on their way
	published             int        // steps of the weights that are
	publishedAt, savedAt  time.Time
	publishTook, saveTook time.Duration
}

// order is a turn of the learner: it learns MaxSteps at most, until For is over, or the table stays shut for as long as Wait.
type order struct {
	Run       string
	Driver    uint64 // which makes the call
	First     bool   // of this driver: from now on those of others are refused
	Spec      Spec
	Seed      uint64
	EnvSteps  int // that the run has made when the order is given: those of the checkpoint
	Episodes  int
	Seconds   float64
	Random    []float64
	MaxSteps  int // 0: nothing is learned, and what is there is told
	For, Wait time.Duration
	Save      bool // of a turn in which nothing is learned, so that the checkpoint is of one moment
}

// came is how far the learner has come. Steps are those of its checkpoint, so that they never go back.
type came struct {
	Steps    int
	EnvSteps int
	Episodes int
	Seconds  float64
	Random   []float64
	Loss     float64
	Did      int  // steps in this turn
	Due      bool // a checkpoint is to be made
}

func (g *learnerGrain) learn(ctx context.Context, e *Experiment, o order) (p came, err error) {
	if o.First || g.driver == 0 {
		g.driver = o.Driver
		g.learner = nil // it goes on from the checkpoint, whose counters the driver is told: what came after it is not counted
	} else if g.driver != o.Driver {
		return p, fmt.Errorf("%w: another Train, which began later, goes on with the run %q", ErrPlan, o.Run)
	}
	if g.saved.Exists() {
		if err := g.saved.Value.of(o.Run, o.Seed); err != nil {
			return p, err
		}
	}
	if g.learner == nil {
		if err := g.wake(ctx, e, o); err != nil {
			return p, err
		}
	}
	if o.MaxSteps > 0 {
		whole := false
		defer func() {
			if !whole { // it panicked or diverged: the next call goes on from the checkpoint
				g.learner = nil
			}
		}()
		p, err = g.work(ctx, e, o)
		if whole = err == nil || lost(err) || ctx.Err() != nil; err != nil {
			return p, err
		}
	}
	if o.Save {
		if g.steps > g.published {
			if err := g.publish(ctx, e, o.Run); err != nil {
				return p, err
			}
		}
		if err := g.save(ctx, o); err != nil {
			return p, err
		}
	}
	c := &g.saved.Value
	p.Steps, p.EnvSteps, p.Episodes, p.Loss, p.Seconds, p.Random = c.Steps, c.EnvSteps, c.Episodes, g.loss, c.Seconds, c.Random
	p.Due = g.steps > c.Steps && time.Since(g.savedAt) >= rest*g.saveTook
	return p, nil
}

// wake makes the learner of an activation: as the checkpoint says, or a new one.
func (g *learnerGrain) wake(ctx context.Context, e *Experiment, o order) error {
	l, err := e.agent.Learner(ctx, o.Spec, o.Seed)
	if err != nil {
		return err
	}
	if g.saved.Exists() {
		if err := g.saved.Value.restore(ctx, l); err != nil {
			return err
		}
		g.steps = g.saved.Value.Steps
	}
	g.table = e.replay.Get(o.Run)
	g.batches = g.table.Sampler(e.x.Table.Name, e.x.Batch, 0)
	g.learner = l
	if err := g.publish(ctx, e, o.Run); err != nil {
		g.learner = nil
		return err
	}
	if g.saved.Exists() {
		return nil
	}
	err = g.save(ctx, o)
	g.savedAt = time.Time{} // the next is due as soon as something was learned
	return err
}

// of refuses the checkpoint of a run of another seed.
func (c *checkpoint) of(run string, seed uint64) error {
	if c.Seed == seed {
		return nil
	}
	return fmt.Errorf("%w: the run %q has seed %d and has not ended: go on with that seed, or give the run of seed %d another name", ErrPlan, run, c.Seed, seed)
}

func (c *checkpoint) restore(ctx context.Context, l Learner) error {
	data, err := c.bytes(ctx)
	if err != nil {
		return err
	}
	if c.Model != l.Model() {
		return fmt.Errorf("%w: the checkpoint is of %s, and the agent has %s", ErrModel, c.Model, l.Model())
	}
	if err := l.UnmarshalBinary(data); err != nil {
		return fmt.Errorf("read the checkpoint of %s: %w", c.Model, err)
	}
	return nil
}

// bytes are what the learner has marshaled.
func (c *checkpoint) bytes(ctx context.Context) ([]byte, error) {
	if len(c.Object) == 0 {
		return c.Learner, nil
	}
	data, err := c.Object[0].Get(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the checkpoint of %s: %w", c.Model, err)
	}
	return data, nil
}

func (g *learnerGrain) save(ctx context.Context, o order) error {
	began := time.Now()
	data, err := g.learner.MarshalBinary()
	if err != nil {
		return err
	}
	c := checkpoint{
		Model: g.learner.Model(), Seed: o.Seed, Learner: data, Steps: g.steps, EnvSteps: o.EnvSteps, Episodes: o.Episodes, Seconds: o.Seconds, Random: o.Random,
	}
	if err := g.write(ctx, c); err != nil {
		return err
	}
	g.savedAt, g.saveTook = time.Now(), time.Since(began)
	return nil
}

// write stores a checkpoint. One that is too large for a State, or for the store of nodes that have no directories, is an object in the memory of two
// nodes.
func (g *learnerGrain) write(ctx context.Context, c checkpoint) error {
	g.saved.Value = c
	err := g.saved.Write(ctx)
	if !errors.Is(err, raysys.ErrNoStore) && !errors.Is(err, raysys.ErrTooLarge) {
		return err
	}
	object := raysys.Put(ctx, c.Learner, raysys.Replicas(2))
	if _, bad := object.Get(ctx); errors.Is(bad, raysys.ErrNoCapacity) { // one node is all there is
		object = raysys.Put(ctx, c.Learner)
	}
	c.Learner, c.Object = nil, []raysys.Ref[[]byte]{object}
	g.saved.Value = c
	return g.saved.Write(ctx)
}

// clear ends the run of this key.
func (g *learnerGrain) clear(ctx context.Context, e *Experiment, run string) error {
	err := raysys.Forget(ctx, weightsName(e, run))
	if errors.Is(err, raysys.ErrNotFound) {
		err = nil
	}
	return errors.Join(err, g.saved.Clear(ctx), grains.Deactivate(ctx))
}

// keep and kept are for a run in one goroutine, whose checkpoints are here too.
func (g *learnerGrain) keep(ctx context.Context, c checkpoint) error {
	g.learner = nil // it would go on from an older one
	return g.write(ctx, c)
}

func (g *learnerGrain) kept(context.Context) (checkpoint, error) { return g.saved.Value, nil }

// publish gives the weights the name by which policies find them, on whatever node they are.
func (g *learnerGrain) publish(ctx context.Context, e *Experiment, run string) error {
	began := time.Now()
	w := Weights{g.learner.Model(), g.steps, g.learner.Weights()}
	if _, err := raysys.Put(ctx, w, raysys.Named(weightsName(e, run))).Get(ctx); err != nil {
		return err
	}
	g.published, g.publishedAt, g.publishTook = g.steps, time.Now(), time.Since(began)
	return nil
}

// weightsName is the name of the newest weights of a run. The slashes in an experiment's name are escaped, so that the run b/c of the experiment a is not the run c of
// the experiment a/b.
func weightsName(e *Experiment, run string) string { return "rl/" + url.PathEscape(e.name) + "/" + run }

// work learns from one batch after the other. Priorities go back while the next one is learned from.
func (g *learnerGrain) work(ctx context.Context, e *Experiment, o order) (p came, err error) {
	defer func() { err = errors.Join(err, g.updated()) }()
	began := g.steps
	for until := time.Now().Add(o.For); g.steps-began < o.MaxSteps && time.Now().Before(until); {
		batch, err := next(ctx, g.batches, o.Wait)
		if dry(ctx, err) { // the actors may wait for newer weights
			if g.steps > g.published {
				if err := g.publish(ctx, e, o.Run); err != nil {
					return p, err
				}
			}
			break
		} else if err != nil {
			return p, err
		}
		if err := fitting(e, &o.Spec, batch); err != nil {
			return p, err
		}
		learned, err := learn(ctx, g.learner, batch)
		if err != nil {
			g.learner = nil // what it knows now may be worthless: the next turn begins with the checkpoint
			return p, err
		}
		if learned.Steps > 0 {
			g.steps, g.loss = g.steps+learned.Steps, learned.Loss
		}
		if err := g.update(ctx, e, batch.Keys, learned.Priorities); err != nil {
			return p, err
		}
		if g.steps > g.published && time.Since(g.publishedAt) >= rest*g.publishTook {
			if err := g.publish(ctx, e, o.Run); err != nil {
				return p, err
			}
		}
	}
	p.Did = g.steps - began
	return p, nil
}

// dry reports whether there was no batch within the time of next. What there was is in a later one.
func dry(ctx context.Context, err error) bool {
	shut := (*replay.ShutError)(nil)
	return errors.As(err, &shut) || errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil
}

func next(ctx context.Context, s *replay.Sampler[Trajectory], wait time.Duration) (Batch, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return s.Next(ctx)
}

// fitting refuses trajectories of another program than this one.
func fitting(e *Experiment, spec *Spec, b Batch) error {
	width := max(1, len(spec.Low))
	for i := range b.Steps {
		if t := &b.Steps[i]; !t.fits(spec.Size(), width, width*e.x.Extra) {
			return fmt.Errorf("%w: a trajectory of %d steps has %d observed numbers, %d of actions, %d discounts and %d extras: another program inserted it",
				ErrModel, t.Len(), len(t.Obs), len(t.Actions), len(t.Discounts), len(t.Extras))
		}
	}
	return nil
}

// update sends priorities, once those before have arrived.
func (g *learnerGrain) update(ctx context.Context, e *Experiment, keys []uint64, priorities []float64) error {
	if err := g.updated(); err != nil || priorities == nil {
		return err
	}
	done, table, name := make(chan error, 1), g.table, e.x.Table.Name
	g.updates = done
	go func() { done <- table.Update(ctx, name, keys, priorities) }()
	return nil
}

func (g *learnerGrain) updated() error {
	if g.updates == nil {
		return nil
	}
	err := <-g.updates
	g.updates = nil
	return err
}
