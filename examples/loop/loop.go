package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/envs"
	"github.com/raysys/raysys/rl/ppo"
)

var (
	algorithm = ppo.New(ppo.Config{})
	agent     = rl.Define("loop-pole", rl.Setup[int]{Env: envs.CartPole, Agent: algorithm}) // a package variable: every node knows it
	servers   = grains.Define[server]("loop-server", grains.Placement(raysys.Spread))
	act       = grains.Method(servers, "act", (*server).Act)
	use       = grains.Action(servers, "use", (*server).Use)
)

// server acts by the newest weights of a run.
type server struct {
	policy rl.Policy
	steps  int // of the learner: the version

	latest raysys.Ref[rl.Weights]
	look   context.CancelFunc // of latest; nil: it is not on its way
	looked time.Time
}

// ask is a client's question.
type ask struct {
	Run string
	Obs []float32
}

// choice is the answer: the action, and which version chose it.
type choice struct{ Action, Version int }

// again is how often a server looks for newer weights.
const again = 50 * time.Millisecond

// Act never waits for weights, but for the first: raysys.ErrNotFound where there are none.
func (s *server) Act(ctx context.Context, a ask) (c choice, err error) {
	if s.policy == nil {
		w, err := agent.Latest(ctx, a.Run).Get(ctx)
		if err == nil {
			err = s.Use(ctx, w)
		}
		if err != nil {
			return c, err
		}
	}
	if err := s.pull(ctx, a.Run); err != nil {
		return c, err
	}
	var action [1]float32
	s.policy.Act(a.Obs, nil, action[:], nil)
	return choice{int(action[0]), s.steps}, nil
}

// pull takes weights that have come, and asks for newer ones.
func (s *server) pull(ctx context.Context, run string) error {
	if s.look != nil && raysys.PhaseOf(s.latest) != raysys.PhasePending {
		w, err := s.latest.Get(ctx)
		s.look()
		s.look = nil
		if err == nil && w.Steps > s.steps { // an error: the run has ended, or the node that had them: these are as good as before
			if err := s.Use(ctx, w); err != nil {
				return err
			}
		}
	}
	if s.look == nil && time.Since(s.looked) >= again {
		s.looked = time.Now()
		var life context.Context
		life, s.look = context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		s.latest = agent.Latest(life, run)
	}
	return nil
}

// Use has the server act by these weights.
func (s *server) Use(_ context.Context, w rl.Weights) (err error) {
	if s.policy == nil {
		if s.policy, err = algorithm.Policy(envs.CartPole(1).Spec()); err != nil {
			return err
		}
	}
	s.steps = w.Steps
	return s.policy.Load(w)
}

// OnDeactivate ends what is on its way.
func (s *server) OnDeactivate(context.Context) error {
	if s.look != nil {
		s.look()
	}
	return nil
}

// loop is what is to be done.
type loop struct {
	Actors, Steps, Servers int
	Seed                   uint64
}

// served is an episode of the client.
type served struct {
	Seconds float64 `json:"seconds"` // since the loop began
	Return  float64 `json:"return"`
	Version int     `json:"version"` // that chose its last action
}

// outcome is what came of it.
type outcome struct {
	First      float64  `json:"served_first"` // the mean return of the first tenth of the served episodes
	Last       float64  `json:"served_last"`  // of the last tenth
	Versions   int      `json:"versions"`
	MeanReturn float64  `json:"mean_return"`
	Steps      int      `json:"steps"`
	Solved     bool     `json:"solved"`
	Served     []served `json:"served"`
}

// run trains and serves at the same time, and some episodes longer.
func (l loop) run(ctx context.Context) (o outcome, err error) {
	name := fmt.Sprintf("loop-%d", l.Seed)
	if err := agent.Forget(ctx, name); err != nil { // a run that was interrupted
		return o, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	trained, failed := make(chan *rl.Run, 1), make(chan error, 1)
	go func() {
		run, err := agent.Train(raysys.Branch(ctx, 0), rl.Plan{Name: name, Steps: l.Steps, Actors: l.Actors, Seed: l.Seed, Stop: rl.MeanReturn(20, 475)})
		if err != nil {
			failed <- err
			return
		}
		trained <- run
	}()
	began, env, left := time.Now(), envs.CartPole(l.Seed+1000), 20 // episodes after the training
	client := raysys.Branch(ctx, 1)
	for { // until there are weights to serve
		if _, err := agent.Latest(client, name).Get(client); err == nil {
			break
		} else if !errors.Is(err, raysys.ErrNotFound) {
			return o, err
		}
		select {
		case err := <-failed:
			return o, err
		case <-trained:
			return o, fmt.Errorf("the run of %d steps ended before it could be served: give more", l.Steps)
		case <-time.After(10 * time.Millisecond):
		}
	}
	for i := 0; left > 0; i++ {
		select {
		case err := <-failed:
			return o, err
		case run := <-trained:
			o.MeanReturn, o.Steps, o.Solved = run.MeanReturn, run.Steps, run.Solved
			for s := range l.Servers {
				if _, err := use.Call(client, l.server(s), run.Weights).Get(client); err != nil {
					return o, err
				}
			}
			trained = nil
		default:
		}
		if trained == nil {
			left--
		}
		one, err := l.episode(client, name, env, i)
		if err != nil {
			return o, fmt.Errorf("episode %d of the client: %w", i, err)
		}
		one.Seconds = time.Since(began).Seconds()
		if n := len(o.Served); n == 0 || o.Served[n-1].Version != one.Version {
			o.Versions++
		}
		o.Served = append(o.Served, one)
	}
	tenth := max(1, len(o.Served)/10)
	o.First, o.Last = mean(o.Served[:tenth]), mean(o.Served[len(o.Served)-tenth:])
	return o, nil
}

func (l loop) server(i int) grains.Grain[server] {
	return servers.Get(fmt.Sprintf("%d/%d", l.Seed, i%l.Servers))
}

// episode plays one, whose actions a server chooses.
func (l loop) episode(ctx context.Context, run string, env rl.Env[int], i int) (s served, err error) {
	for step := (rl.Step{Obs: env.Reset()}); !step.Done(); {
		c, err := act.Call(ctx, l.server(i), ask{run, slices.Clone(step.Obs)}).Get(ctx)
		if err != nil {
			return s, err
		}
		step = env.Step(c.Action)
		s.Return, s.Version = s.Return+float64(step.Reward), c.Version
	}
	return s, nil
}

func mean(list []served) (m float64) {
	for _, s := range list {
		m += s.Return / float64(len(list))
	}
	return m
}
