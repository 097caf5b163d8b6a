package es

import (
	"cmp"
	"errors"
	"fmt"
	"math"
)

// ErrConfig: a Config or a Plan cannot be meant, or the algorithm cannot act in the environment.
var ErrConfig = errors.New("es: it cannot be meant")

// Config says how a search goes. In every field zero is the default.
type Config struct {
	// Hidden is the width of the two hidden layers: 16 unless set; negative: there are none, and the policy is linear.
	Hidden int
	// Pairs is how many pairs of candidates an update plays: 32 unless set.
	Pairs int
	// Episodes is how many each candidate plays: 1 unless set. Both of a pair play the same ones.
	Episodes int
	// Sigma is the standard deviation of the noise: 0.2 unless set.
	Sigma float64
	// LearningRate is Adam's step: 0.1 unless set.
	LearningRate float64
	// Fanout is how many players a player asks: 4 unless set.
	Fanout int
}

func (c Config) complete() (Config, error) {
	for field, otherwise := range map[*int]int{&c.Hidden: 16, &c.Pairs: 32, &c.Episodes: 1, &c.Fanout: 4} {
		*field = cmp.Or(*field, otherwise)
	}
	for field, otherwise := range map[*float64]float64{&c.Sigma: 0.2, &c.LearningRate: 0.1} {
		*field = cmp.Or(*field, otherwise)
	}
	for field, x := range map[string]int{"Pairs": c.Pairs, "Episodes": c.Episodes, "Fanout": c.Fanout} {
		if x < 1 {
			return c, fmt.Errorf("%w: Config.%s is %d: give 1 or more", ErrConfig, field, x)
		}
	}
	for field, x := range map[string]float64{"Sigma": c.Sigma, "LearningRate": c.LearningRate} {
		if !(x > 0) || math.IsInf(x, 0) { // NaN is refused
			return c, fmt.Errorf("%w: Config.%s is %v: give a number above 0", ErrConfig, field, x)
		}
	}
	return c, nil
}

// Plan says how long a run goes.
type Plan struct {
	// Steps of the environment are made before the last update at least. Those of measurements do not count: a tenth as many, and 10 episodes at the end, 100
	// for a Goal. Random plays the weights that it may keep 20 times more.
	Steps int
	// Workers play at the same time: 1 unless set.
	Workers int
	// Goal is the mean return at which the run ends: 100 fresh episodes have to reach it. 0: there is none.
	Goal float64
	// Seed decides all chance: 1 unless set.
	Seed uint64
}

func (p Plan) complete() (Plan, error) {
	switch {
	case p.Steps < 1:
		return p, fmt.Errorf("%w: Plan.Steps is %d: give 1 or more", ErrConfig, p.Steps)
	case p.Workers < 0:
		return p, fmt.Errorf("%w: Plan.Workers is %d: give 0 or more", ErrConfig, p.Workers)
	case math.IsNaN(p.Goal):
		return p, fmt.Errorf("%w: Plan.Goal is NaN: give a number", ErrConfig)
	}
	p.Workers, p.Seed = max(1, p.Workers), max(1, p.Seed)
	return p, nil
}
