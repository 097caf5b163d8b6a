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
	"bytes"
	"embed"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/raysys/raysys/tools/internal/figures"
)

var (
	rounds   = flag.Int("rounds", 3, "how often each is measured: the seeds of training")
	lasts    = flag.Duration("for", time.Second, "how long each measurement of steps lasts")
	full     = flag.Bool("full", false, "measure training too")
	python   = flag.String("python", "python3", "a Python that has what requirements.txt says, and requirements-full.txt with -full")
	document = flag.String("doc", "", "write the tables between their marks in this file too")
)

//go:embed peers/*.py
var peers embed.FS

func main() {
	flag.Parse()
	run := measure
	if flag.Arg(0) == "train" { // a process that one round started
		run = func() error { return train(flag.Arg(1)) }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func measure() error {
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
	return output(cmd)
}

// output is what a process prints. Its errors end with what it said last.
func output(cmd *exec.Cmd) ([]byte, error) {
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, bytes.TrimSpace(said.Bytes()[max(0, said.Len()-2000):]))
	}
	return out, err
}

// inTurn has each of n measured once a round, another one first each time, and returns the load before each round.
func inTurn(what string, n int, once func(round, i int) error) (load []string, err error) {
	for r := range *rounds {
		load = append(load, figures.Load())
		fmt.Fprintf(os.Stderr, "%s: round %d of %d, load %s\n", what, r+1, *rounds, load[r])
		for k := range n {
			if err := once(r, (r+k)%n); err != nil {
				return nil, err
			}
		}
	}
	return load, nil
}

// head is the line above a table.
func head(versions string, load []string) string {
	return fmt.Sprintf("%s, %d CPUs, %s, %s; %d rounds in turn, before which the load was %s.\n\n",
		time.Now().Format(time.DateOnly), runtime.NumCPU(), runtime.Version(), versions, *rounds, strings.Join(load, ", "))
}

// publish prints a table, and writes it to the document.
func publish(mark, made string) error {
	fmt.Print(made)
	if *document == "" {
		return nil
	}
	return figures.Write(*document, mark, made)
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
	load, err := inTurn("steps", len(sides), func(_, i int) error {
		got, err := sides[i]()
		for name, rate := range got {
			rates[name] = append(rates[name], rate)
		}
		return err
	})
	if err != nil {
		return err
	}
	return publish("bench-rl-steps", head(versions, load)+stepsTable(rates))
}

// measureTraining measures what it takes to solve CartPole.
func measureTraining(dir, versions string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	list := []*contender{
		{name: "raysys, `rl/ppo`", run: func(seed string) ([]byte, error) {
			cmd := exec.Command(self, "train", seed)
			cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
			return output(cmd)
		}},
		{name: "Stable-Baselines3", run: func(seed string) ([]byte, error) { return script(dir, "sb3", seed) }},
		{name: "RLlib", run: func(seed string) ([]byte, error) { return script(dir, "rllib", seed) }},
	}
	load, err := inTurn("training", len(list), func(round, i int) error { return list[i].once(uint64(round) + 1) })
	if err != nil {
		return err
	}
	return publish("bench-rl", head(versions, load)+trainingTable(list))
}
