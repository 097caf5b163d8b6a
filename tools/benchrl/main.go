// Command benchrl measures package rl beside its peers: PPO on CartPole until it is solved, beside Stable-Baselines3 and RLlib, and the steps of the
// environment alone, beside gymnasium. All are measured in turn, so that they meet the same machine.
//
//	make bench-rl             steps of environments alone
//	make bench-rl FULL=1      training too
//
//	this process ──► raysys: this program again, one goroutine, GOMAXPROCS=1
//	             ──► sb3.py, rllib.py: one thread of torch
//	             ──► steps.py: gymnasium alone
//
// Each run of training is a process of its own, and a round has one of each library by the same seed. All play 20 greedy episodes when training comes
// near the goal, and end when their mean return is the goal. The time of training goes from the first step to that end, evaluations included; what the process
// does beside, such as imports, is another figure.
package main

import (
	"context"
	"embed"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/raysys/raysys/tools/internal/figures"
)

var (
	rounds = flag.Int("rounds", 3, "how often each is measured: the seeds of training")
	lasts  = flag.Duration("for", time.Second, "how long each measurement of steps lasts")
	full   = flag.Bool("full", false, "measure training too")
	python = flag.String("python", "python3", "a Python that has what requirements.txt says, and requirements-full.txt with -full")
)

//go:embed peers/*.py
var peers embed.FS

func main() { figures.Main(measure, train) }

func measure(context.Context) error {
	if *rounds < 1 {
		return fmt.Errorf("-rounds is %d: give 1 or more", *rounds)
	}
	dir, err := os.MkdirTemp("", "benchrl")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	scripts, err := fs.Sub(peers, "peers")
	if err != nil {
		return err
	}
	if err := os.CopyFS(dir, scripts); err != nil {
		return err
	}
	names := []string{"gymnasium", "numpy"}
	if *full {
		names = append(names, "stable-baselines3", "ray", "torch")
	}
	versions, err := script(dir, "versions", names...)
	if err != nil {
		return fmt.Errorf("%w (make bench-rl installs gymnasium, and make bench-rl FULL=1 all)", err)
	}
	if err := measureSteps(dir, lines(versions)); err != nil || !*full {
		return err
	}
	return measureTraining(dir, lines(versions))
}

// lines makes one line of many.
func lines(out []byte) string {
	return strings.Join(strings.Split(strings.TrimSpace(string(out)), "\n"), ", ")
}

// script runs a script of a peer, and returns what it prints.
func script(dir, name string, args ...string) ([]byte, error) {
	cmd := exec.Command(*python, append([]string{filepath.Join(dir, name+".py")}, args...)...)
	cmd.Env = append(os.Environ(), "OMP_NUM_THREADS=1", "RAY_USAGE_STATS_ENABLED=0", "PYTHONDONTWRITEBYTECODE=1")
	return figures.Output(cmd)
}

// head is the line above a table.
func head(versions string, load []string) string {
	return fmt.Sprintf("%s, %s; %d rounds in turn, before which the load was %s.\n\n",
		figures.Here(), versions, *rounds, strings.Join(load, ", "))
}

// measureSteps measures how fast environments alone are.
func measureSteps(dir, versions string) error {
	rates := map[string][]float64{}
	sides := []func() (map[string]float64, error){
		func() (map[string]float64, error) {
			return map[string]float64{ours[0]: stepping(1), ours[1]: stepping(2)}, nil
		},
		func() (rates map[string]float64, err error) {
			out, err := script(dir, "steps", strconv.Itoa(vector), fmt.Sprint(lasts.Seconds()))
			if err == nil {
				err = json.Unmarshal(out, &rates)
			}
			return rates, err
		},
	}
	load, err := figures.InTurn(*rounds, len(sides), func(_, i int) error {
		got, err := sides[i]()
		for name, rate := range got {
			rates[name] = append(rates[name], rate)
		}
		return err
	})
	if err != nil {
		return err
	}
	return figures.Publish("bench-rl-steps", head(versions, load)+stepsTable(rates))
}

// measureTraining measures what it takes to solve CartPole.
func measureTraining(dir, versions string) error {
	list := []*contender{
		{name: "raysys, `rl/ppo`", run: func(seed string) ([]byte, error) {
			cmd := figures.Child(seed)
			cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
			return figures.Output(cmd)
		}},
		{name: "Stable-Baselines3", run: func(seed string) ([]byte, error) { return script(dir, "sb3", seed) }},
		{name: "RLlib", run: func(seed string) ([]byte, error) { return script(dir, "rllib", seed) }},
	}
	load, err := figures.InTurn(*rounds, len(list), func(round, i int) error { return list[i].once(uint64(round) + 1) })
	if err != nil {
		return err
	}
	return figures.Publish("bench-rl", head(versions, load)+trainingTable(list))
}
