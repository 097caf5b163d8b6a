package sweep

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/progress"
	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// Sweep is a Space with what to train for each Setting, under a name that all nodes know.
type Sweep struct {
	name  string
	space Space
	bad   error // Run returns it

	e      *rl.Experiment // keeps the checkpoints of all trials
	trial  tasks.Task[order, came]
	boards grains.Kind[keeper]
	kept   grains.Func0[keeper, board]
	keep   grains.Act[keeper, board]
}

// keeper keeps the board of a sweep under its name.
type keeper struct{ saved grains.State[board] }

func (k *keeper) kept(context.Context) (board, error) { return k.saved.Value, nil }

func (k *keeper) keep(ctx context.Context, b board) error {
	if b.Of == "" {
		return k.saved.Clear(ctx)
	}
	k.saved.Value = b
	return k.saved.Write(ctx)
}

// order is a job for the node that does it.
type order struct {
	Run      string // the name of the trial's
	Setting  Setting
	Steps    int
	Until    int
	Seed     uint64
	Episodes int       // number of them that measure it; 0: the default
	Stop     []float64 // episodes and goal; empty where there is none
}

// came is what came of it.
type came struct {
	Steps            int
	Return           float64
	Solved, Diverged bool
}

// Define makes a sweep. Make it once, in a package variable, so that every node of the program knows it. setup is called for each trial, on the node that
// runs it, and returns the same for the same Setting.
func Define[A rl.Action](name string, space Space, setup func(Setting) rl.Setup[A]) *Sweep {
	s := &Sweep{name: name, space: space}
	safe := func(of Setting) (u rl.Setup[A], err error) {
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("%w: the setup of sweep %q for %v: %v", rl.ErrPlan, name, of, r)
			}
		}()
		return setup(of), nil
	}
	for _, n := range space.names() {
		if r := space[n]; r.check() != "" {
			s.bad = errors.Join(s.bad, fmt.Errorf("%w: sweep %q: the range of %q %s", rl.ErrPlan, name, n, r.check()))
		}
	}
	if len(space) == 0 || setup == nil {
		s.bad = fmt.Errorf("%w: sweep %q has no Space, or no setup", rl.ErrPlan, name)
	}
	var first rl.Setup[A]
	if s.bad == nil {
		first, s.bad = safe(space.draw(1, 0))
	}
	if s.bad != nil {
		return s
	}
	s.e = rl.Define(name+".trials", first)
	s.boards = grains.Define[keeper](name+".board", grains.Unfiltered())
	s.kept, s.keep = grains.Method0(s.boards, "kept", (*keeper).kept), grains.Action(s.boards, "keep", (*keeper).keep)
	s.trial = tasks.Define(name+".trial", func(ctx context.Context, o order) (came, error) {
		u, err := safe(o.Setting)
		if err != nil {
			return came{}, err
		}
		plan := rl.Plan{Name: o.Run, Steps: o.Steps, Until: o.Until, Seed: o.Seed, Episodes: o.Episodes, Progress: io.Discard}
		if len(o.Stop) > 0 {
			plan.Stop = rl.MeanReturn(int(o.Stop[0]), o.Stop[1])
		}
		run, err := rl.Variant(s.e, u).Train(ctx, plan)
		if errors.Is(err, rl.ErrDiverged) {
			return came{Steps: o.Until, Diverged: true}, s.e.Forget(ctx, o.Run)
		} else if err != nil {
			return came{}, fmt.Errorf("trial %s of %v: %w", o.Run, o.Setting, err)
		}
		return came{Steps: run.Steps, Return: run.MeanReturn, Solved: run.Solved}, nil
	})
	return s
}

// Run makes the sweep as the plan says. ctx comes from a runtime, such as that of system.Main. One sweep at a time has a name.
//
// It fails with rl.ErrPlan where a plan, a space or a setup cannot be meant, or the name is that of a sweep with another plan, and with the error of a
// trial, unless its learner diverged. A node that dies costs what its trials made since their last checkpoints.
func (s *Sweep) Run(ctx context.Context, plan Plan) (*Result, error) {
	plan, err := plan.complete()
	if err = errors.Join(err, s.bad); err != nil {
		return nil, err
	}
	node := system.NodeOf(ctx)
	if node == nil {
		return nil, fmt.Errorf("sweep %q: trials are tasks: %w", s.name, raysys.ErrNoRuntime)
	}
	if plan.Parallel == 0 {
		st, err := node.Status(ctx)
		if err != nil {
			return nil, fmt.Errorf("sweep %q: %w", s.name, err)
		}
		for _, n := range st.Nodes {
			plan.Parallel += int(n.Resources.CPU)
		}
		plan.Parallel = max(1, plan.Parallel)
	}
	key := plan.Name
	if key == "" {
		key = fmt.Sprintf("%v/%x", node.Job(), raysys.Rand(ctx).Uint64())
	}
	g := &going{Sweep: s, plan: plan, key: key, began: time.Now()}
	if err := g.run(ctx); err != nil {
		return nil, fmt.Errorf("sweep %q: %w", s.name, err)
	}
	return g.result(), nil
}

// Forget drops what a sweep that has ended early left on the nodes. Run with that name begins anew.
func (s *Sweep) Forget(ctx context.Context, name string) error {
	if s.bad != nil {
		return s.bad
	}
	b, err := s.kept.Call(ctx, s.boards.Get(name)).Get(ctx)
	if err != nil {
		return fmt.Errorf("forget sweep %q: %w", name, err)
	}
	return s.forget(ctx, name, &b)
}

func (s *Sweep) forget(ctx context.Context, key string, b *board) (err error) {
	for i := range b.Trials {
		err = errors.Join(err, s.e.Forget(ctx, runName(key, i)))
	}
	_, kerr := s.keep.Call(ctx, s.boards.Get(key), board{}).Get(ctx)
	return errors.Join(err, kerr)
}

// runName is the name of a trial's run.
func runName(key string, trial int) string { return fmt.Sprintf("%s/%d", key, trial) }

// going is a sweep that goes on.
type going struct {
	*Sweep
	plan  Plan
	key   string
	began time.Time
	board board
	line  *progress.Line
}

func (g *going) run(ctx context.Context) (err error) {
	b, err := g.kept.Call(ctx, g.boards.Get(g.key)).Get(ctx)
	if err != nil {
		return err
	}
	g.board = b.clone() // b is the grain's
	p := &g.plan
	of := fmt.Sprintf("%d steps, %v, seed %d, stop %v, space %v", p.Steps, p.Search, p.Seed, p.Stop, g.space)
	if g.board.Of == "" {
		g.board = board{Of: of}
	} else if g.board.Of != of {
		return fmt.Errorf("%w: the sweep %q has begun with another plan (%s), now it is %s: give it another name, or Forget it", rl.ErrPlan, g.key, g.board.Of, of)
	}
	if g.line = progress.NewLine(p.Progress); p.Progress == nil && !g.line.Live() || p.Progress == io.Discard {
		g.line = nil
	}
	defer g.line.End()
	work, cancel := context.WithCancel(ctx) // its end is that of the trials that still run
	defer cancel()
	var open raysys.RefSet[came]
	var jobs []job
	started := map[job]bool{}
	fill := func() {
		for len(started) < p.Parallel && !g.board.Solved {
			j, ok := g.board.next(p, func(n int) Setting { return g.space.draw(p.Seed, n) }, started)
			if !ok {
				return
			}
			started[j] = true
			jobs = append(jobs, j)
			open.Add(g.trial.Go(work, g.order(j)))
		}
	}
	fill()
	for i, r := range open.AsCompleted(ctx) {
		c, err := r.Get(ctx)
		if err != nil {
			return err
		}
		delete(started, jobs[i])
		g.board.takeResult(jobs[i], &c)
		fill() // before the board is saved, so that it has what runs
		if err := g.save(ctx); err != nil {
			return err
		}
		if g.board.Solved {
			break
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	cancel()
	for range open.AsCompleted(ctx) { // whose checkpoints come no more then
	}
	return g.forget(ctx, g.key, &g.board)
}

func (g *going) order(j job) order {
	p := &g.plan
	o := order{
		Run: runName(g.key, j.Trial), Setting: g.board.Trials[j.Trial].Setting, Steps: p.Steps, Until: p.Search.rungs(p.Steps)[j.Rung],
		Seed: p.Seed<<20 + uint64(j.Trial) + 1, Episodes: p.Episodes,
	}
	if episodes, goal := p.Stop.Goal(); episodes > 0 {
		o.Stop = []float64{float64(episodes), goal}
	}
	return o
}

// save keeps the board, and shows it.
func (g *going) save(ctx context.Context) error {
	if g.plan.Name != "" {
		if _, err := g.keep.Call(ctx, g.boards.Get(g.key), g.board.clone()).Get(ctx); err != nil {
			return err
		}
	}
	b := &g.board
	text := fmt.Sprintf("%s: %d of %d trials, %d steps", g.name, len(b.Trials), g.plan.Trials, b.Steps)
	if i := b.best(); i >= 0 {
		text += fmt.Sprintf(", best return %.4g of %v", b.Trials[i].Last().Return, b.Trials[i].Setting)
	}
	g.line.Draw(text)
	if g.plan.Log == "" {
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(g.plan.Log), "sweep-*.tmp")
	if err != nil {
		return fmt.Errorf("Plan.Log: %w", err)
	}
	err = errors.Join(g.result().WriteJSONL(f), f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), g.plan.Log)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("Plan.Log: %w", err), os.Remove(f.Name()))
	}
	return nil
}
