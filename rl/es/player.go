package es

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/rl"
)

// player is a grain of the tree. It keeps nothing: an order says all.
type player struct{}

// what the candidates of an order are.
type what int

const (
	near    what = iota // pairs around the weights
	drawn               // weights of their own
	weights             // the weights, in episodes of their own
)

// order asks a player, and those below it, to play candidates.
type order struct {
	What       what
	Run        string
	Player     int // who is asked, from 0: it asks Player*Fanout+1 and those that follow
	Workers    int
	Candidates int
	First      uint64 // the number of the first candidate in the run
	Seed       uint64
	Weights    raysys.Ref[[]float32]
}

// heard is what came of the candidates of a player and of those below it.
type heard struct {
	Sum             []float32 // of the noises, each times its return less that of its mirror
	Returns         float64
	Squares         float64 // of the returns
	Episodes, Steps int
	Best            float64
	BestOf          uint64 // the candidate that had it
}

func (h *heard) add(o heard) {
	for i, x := range o.Sum {
		h.Sum[i] += x
	}
	if o.Episodes > 0 && (h.Episodes == 0 || o.Best > h.Best) {
		h.Best, h.BestOf = o.Best, o.BestOf
	}
	h.Returns += o.Returns
	h.Squares += o.Squares
	h.Episodes += o.Episodes
	h.Steps += o.Steps
}

// play asks the players below, plays the own share, and adds up in the order of the tree: so the bits do not hang on who was faster.
// Where one fails the others end, and all are heard of.
func (s *Search) play(ctx context.Context, o order) (heard, error) {
	work, cancel := context.WithCancel(ctx)
	defer cancel()
	var below []raysys.Ref[heard]
	for i := range s.config.Fanout {
		if child := o.Player*s.config.Fanout + 1 + i; child < o.Workers {
			next := o
			next.Player = child
			below = append(below, s.askPlayer(work, next))
		}
	}
	h, err := s.share(ctx, o)
	for _, r := range below {
		if err != nil {
			cancel()
		}
		part, failed := r.Get(ctx)
		if err == nil && failed == nil {
			h.add(part)
		} else if err == nil {
			err = failed
		}
	}
	return h, err
}

func (s *Search) askPlayer(ctx context.Context, o order) raysys.Ref[heard] {
	return s.playing.Call(ctx, s.players.Get(fmt.Sprintf("%s/%d", o.Run, o.Player)), o)
}

// share plays every o.Workers-th candidate.
func (s *Search) share(ctx context.Context, o order) (h heard, err error) {
	var center []float32
	if o.What != drawn {
		if center, err = o.Weights.Get(ctx); err != nil {
			return h, err
		}
	}
	if o.What == near {
		h.Sum = make([]float32, len(center))
	}
	for i := o.Player; i < o.Candidates; i += o.Workers {
		if ctx.Err() != nil {
			return h, context.Cause(ctx)
		}
		n := o.First + uint64(i)
		switch o.What {
		case drawn:
			err = s.score(&h, o.Seed, n, s.fresh(o.Seed, n))
		case weights:
			err = s.score(&h, o.Seed, n, center)
		default:
			err = s.pair(&h, o.Seed, n, center)
		}
		if err != nil {
			return h, err
		}
	}
	return h, nil
}

// pair plays the weights with noise, and with its mirror.
func (s *Search) pair(h *heard, seed, n uint64, center []float32) error {
	noise, near := make([]float32, len(center)), make([]float32, len(center))
	rng := rand.New(rand.NewPCG(seed, n))
	for i := range noise {
		noise[i] = float32(rng.NormFloat64())
	}
	difference := 0.0
	for _, sign := range []float64{1, -1} {
		for i, x := range noise {
			near[i] = center[i] + float32(sign*s.config.Sigma)*x
		}
		before := h.Returns
		if err := s.score(h, seed, n, near); err != nil {
			return err
		}
		difference += sign * (h.Returns - before)
	}
	for i, x := range noise {
		h.Sum[i] += float32(difference) * x
	}
	return nil
}

// score plays the episodes of a candidate. Their environment follows from its number.
func (s *Search) score(h *heard, seed, n uint64, params []float32) error {
	p := &policy{model: s.model, params: params}
	loop, err := s.loop(mix(seed, n), p)
	if err != nil {
		return err
	}
	var mean float64
	for range s.config.Episodes {
		e, err := loop.Episode()
		if err != nil {
			return err
		}
		mean += e.Return / float64(s.config.Episodes)
		h.Steps += e.Steps
	}
	one := heard{Returns: mean, Squares: mean * mean, Episodes: 1, Best: mean, BestOf: n}
	h.add(one)
	return nil
}

// fresh are weights of their own.
func (s *Search) fresh(seed, n uint64) []float32 {
	return s.model.Init(rand.New(rand.NewPCG(seed, n)), 1)
}

// mix is the seed of an environment: the finalizer of SplitMix64.
func mix(seed, n uint64) uint64 {
	z := seed*0x9e3779b97f4a7c15 + n
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// spread is the standard deviation of the returns.
func (h *heard) spread() float64 {
	n := float64(h.Episodes)
	return math.Sqrt(max(0, h.Squares/n-h.Returns/n*h.Returns/n))
}

var _ rl.Policy = (*policy)(nil)
