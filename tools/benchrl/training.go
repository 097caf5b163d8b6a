package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/envs"
	"github.com/raysys/raysys/rl/ppo"
	"github.com/raysys/raysys/tools/internal/figures"
)

const (
	goal      = 475
	evaluated = 20      // episodes, which peers/goal.py has too
	most      = 300_000 // steps of a run
	apart     = 2048    // steps between evaluations
)

var experiment = rl.Define("bench-ppo-cartpole", rl.Setup[int]{Env: envs.CartPole, Agent: ppo.New(ppo.Config{})})

// outcome is how a run of training went, as its process prints it.
type outcome struct {
	Seed    uint64  `json:"seed"`
	Steps   int     `json:"steps"` // of the environment
	Train   float64 `json:"train_s"`
	Mean    float64 `json:"mean"`    // of fresh episodes afterwards
	Reached bool    `json:"reached"` // the goal; else it ended for its number of steps
	beside  float64 // seconds of its process that are not training
}

// train is one run of ours.
func train(ctx context.Context, args []string) error {
	n, err := strconv.ParseUint(args[0], 10, 64)
	if err != nil {
		return err
	}
	run, err := experiment.Train(ctx, rl.Plan{
		Steps: most, Every: apart, Episodes: evaluated, Stop: rl.MeanReturn(evaluated, goal), Seed: n, Progress: io.Discard,
	})
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(outcome{Seed: n, Steps: run.Steps, Train: run.Took.Seconds(), Mean: run.MeanReturn, Reached: run.Solved})
}

// contender is a library that is measured, with what it did in each round.
type contender struct {
	name     string
	run      func(seed string) ([]byte, error)
	outcomes []outcome
}

func (c *contender) once(seed uint64) error {
	begun := time.Now()
	out, err := c.run(strconv.FormatUint(seed, 10))
	if err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	took := time.Since(begun).Seconds()
	o, err := parse(out, seed)
	if err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	o.beside = took - o.Train
	fmt.Fprintf(os.Stderr, "  %s: seed %d, %d steps in %.2f s, and %.2f s of the process beside; mean return %.1f, reached: %v\n",
		c.name, seed, o.Steps, o.Train, o.beside, o.Mean, o.Reached)
	c.outcomes = append(c.outcomes, o)
	return nil
}

// parse reads the last line: libraries print lines of their own before it.
func parse(out []byte, seed uint64) (o outcome, err error) {
	out = bytes.TrimSpace(out)
	line := out[bytes.LastIndexByte(out, '\n')+1:]
	if err := json.Unmarshal(line, &o); err != nil {
		return o, fmt.Errorf("its last line is %q: %w", line, err)
	}
	if o.Seed != seed || o.Steps <= 0 || !(o.Train > 0) {
		return o, fmt.Errorf("%q is no outcome of seed %d", line, seed)
	}
	return o, nil
}

// each is a figure of all outcomes.
func (c *contender) each(figure func(outcome) float64) (list []float64) {
	for _, o := range c.outcomes {
		list = append(list, figure(o))
	}
	return list
}

// spread is the median of a figure, with the least and the most.
func (c *contender) spread(format string, figure func(outcome) float64) string {
	list := c.each(figure)
	return fmt.Sprintf(format+", "+format+" to "+format, figures.Median(list), slices.Min(list), slices.Max(list))
}

func trainingSeconds(o outcome) float64 { return o.Train }

// trainingTable compares all with the first.
func trainingTable(list []*contender) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| PPO on CartPole until %d greedy episodes have a mean of %d | reached by | seconds of training, least and most ", evaluated, goal)
	b.WriteString("| ratio to raysys, least and most of a round | steps, least and most | seconds of the process beside |\n|---|---|---|---|---|---|\n")
	base := list[0].each(trainingSeconds)
	for _, c := range list {
		reached := 0
		for _, o := range c.outcomes {
			if o.Reached {
				reached++
			}
		}
		fmt.Fprintf(&b, "| %s | %d of %d | %s | %s | %s | %.2g |\n", c.name, reached, len(c.outcomes),
			c.spread("%.2f", trainingSeconds), figures.Ratio(c.each(trainingSeconds), base),
			c.spread("%.0f", func(o outcome) float64 { return float64(o.Steps) }), figures.Median(c.each(func(o outcome) float64 { return o.beside })))
	}
	return b.String()
}
