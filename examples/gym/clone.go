package main

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/grains/process"
	"github.com/raysys/raysys/rl/net"
)

//go:embed clone.py
var clonePy string

type (
	// Set names a data set of Minari: one in a folder of its own, or one that Minari finds, or downloads, by its id.
	Set struct {
		Folder string `json:"folder"`
		ID     string `json:"id"`
	}
	// expert is who makes a set: it plays these episodes.
	expert struct {
		Set
		Env      string `json:"env"`
		Weights  policy `json:"weights"`
		Episodes int    `json:"episodes"`
		Seed     uint64 `json:"seed"`
	}
	// about is what a set has.
	about struct {
		Env      string  `json:"env"`
		Obs      int     `json:"obs"` // numbers in an observation
		Actions  int     `json:"actions"`
		Episodes int     `json:"episodes"`
		Mean     float64 `json:"mean"` // return of an episode
	}
	part struct {
		Set
		At []int `json:"at"` // Next of the part before, nil at the beginning
		N  int   `json:"n"`
	}
	rows struct {
		Obs     process.Tensor `json:"obs"`
		Actions process.Tensor `json:"actions"`
		Next    []int          `json:"next"` // nil at the end
	}
)

// slow is for calls that make a set, download one, or look at all of it.
var slow = raysys.Deadline(10 * time.Minute)

var (
	sets     = process.Define("gym.set", process.Config{Script: clonePy}, grains.Placement(raysys.PreferLocal))
	makeSet  = process.Method[expert, struct{}](sets, "make").With(slow)
	aboutSet = process.Method[Set, about](sets, "about").With(slow)
	readRows = process.Method[part, rows](sets, "rows")
)

// linear balances the pole for 500 steps.
var linear = policy{0.1, 0.3, 1, 1}

// clone learns what the expert of a set does, the one of that id or else one that it makes, and prints how well it plays.
func clone(ctx context.Context, id string, episodes int, seed uint64, w io.Writer) error {
	from := Set{ID: id}
	if id == "" {
		folder, err := os.MkdirTemp("", "gym-clone-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(folder)
		from = Set{folder, "cartpole/linear-v0"}
		if _, err := makeSet.Call(ctx, sets.Get(from.ID), expert{from, "CartPole-v1", linear, episodes, seed}).Get(ctx); err != nil {
			return err
		}
	}
	has, err := aboutSet.Call(ctx, sets.Get(from.ID), from).Get(ctx)
	if err != nil {
		return err
	}
	obs, actions, err := readSet(ctx, from)
	if err != nil {
		return err
	}
	if len(obs) != len(actions)*has.Obs || len(actions) == 0 {
		return fmt.Errorf("the set %s has %d numbers of observations for %d actions, want %d for each", id, len(obs), len(actions), has.Obs)
	}
	fmt.Fprintf(w, "%s: %d episodes of %s, %d steps\n", from.ID, has.Episodes, has.Env, len(actions))
	m := net.New(net.Tanh, has.Obs, 64, 64, has.Actions)
	params := fit(m, obs, actions, seed, w)
	r, err := score.Call(ctx, judges.Get(has.Env), trial{has.Env, has.Obs, has.Actions, params, 1 << 20}).Get(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "mean return: %.1f by random actions, %.1f of the expert in the set, %.1f of its clone\n", r.Random, has.Mean, r.Clone)
	return err
}

// readSet reads all of a set, in parts. A child that has died begins again with the part that was asked for.
func readSet(ctx context.Context, from Set) (obs []float32, actions []int64, err error) {
	for p, died := (part{Set: from, N: 4096}), 0; ; {
		r, err := readRows.Call(ctx, sets.Get(from.ID), p).Get(ctx)
		if errors.Is(err, process.ErrExited) && died < 3 {
			died++
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		o, badObs := process.Values[float32](r.Obs)
		a, badActions := process.Values[int64](r.Actions)
		if err := errors.Join(badObs, badActions); err != nil {
			return nil, nil, err
		}
		if obs, actions = append(obs, o...), append(actions, a...); r.Next == nil {
			return obs, actions, nil
		}
		p.At, died = r.Next, 0
	}
}

const (
	epochs    = 5
	batchSize = 64
)

// fit makes a net say the actions, by cross entropy.
func fit(m net.MLP, obs []float32, actions []int64, seed uint64, w io.Writer) []float32 {
	rng := rand.New(rand.NewPCG(seed, 2))
	params, grads := m.Init(rng, 0.01), make([]float32, m.Size())
	var (
		work net.Workspace
		adam net.Adam
		in   = m.In()
	)
	for epoch := range epochs {
		order, loss, right := rng.Perm(len(actions)), 0.0, 0
		for at := 0; at < len(order); at += batchSize {
			rows := order[at:min(at+batchSize, len(order))]
			var x []float32
			for _, i := range rows {
				x = append(x, obs[i*in:(i+1)*in]...)
			}
			logits, slopes := m.Forward(params, x, &work), make([]float32, len(rows)*m.Out())
			for k, i := range rows {
				row, slope := logits[k*m.Out():(k+1)*m.Out()], slopes[k*m.Out():(k+1)*m.Out()]
				if net.ArgMax(row) == int(actions[i]) {
					right++
				}
				net.LogSoftmax(slope, row)
				loss -= float64(slope[actions[i]])
				net.Softmax(slope, row) // of -log p(action), by the logits: p, and p-1 for the action itself
				slope[actions[i]]--
				for j := range slope {
					slope[j] /= float32(len(rows))
				}
			}
			m.Backward(params, &work, slopes, grads)
			net.ClipNorm(grads, 1)
			adam.Step(params, grads, 1e-3)
		}
		n := float64(len(order))
		fmt.Fprintf(w, "epoch %d: cross entropy %.4f, %.1f %% of the actions\n", epoch+1, loss/n, 100*float64(right)/n)
	}
	return params
}

// trial is a clone that is to be judged: the parameters of its net.
type trial struct {
	Env          string
	Obs, Actions int
	Params       []float32
	Seed         int64
}

type scores struct{ Random, Clone float64 }

// judge plays an environment of gymnasium, beside the policy.
type judge struct{ process.Vector }

var (
	judges = grains.Define[judge]("gym.judge")
	score  = grains.Method(judges, "score", (*judge).score).With(slow)
)

func (j *judge) score(ctx context.Context, t trial) (s scores, err error) {
	if err := j.Start(ctx, process.Config{Gym: t.Env, Envs: envs}); err != nil {
		return s, err
	}
	if o, err := j.Reset(ctx, t.Seed); err != nil || len(o.Data) != 4*envs*t.Obs {
		return s, cmp.Or(err, fmt.Errorf("%s has observations %v, and the set has %d numbers in each", t.Env, o, t.Obs))
	}
	rng := rand.New(rand.NewPCG(uint64(t.Seed), 3))
	s.Random, err = episodes(ctx, &j.Vector, t.Seed, func([]float32) int64 { return rng.Int64N(int64(t.Actions)) })
	if err != nil {
		return s, err
	}
	m, work := net.New(net.Tanh, t.Obs, 64, 64, t.Actions), net.Workspace{}
	s.Clone, err = episodes(ctx, &j.Vector, t.Seed, func(x []float32) int64 { return int64(net.ArgMax(m.Forward(t.Params, x, &work))) })
	return s, err
}
