package simulate_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/raysys/raysys/cmd/raysys-lab/internal/simulate"
)

func small(change func(*simulate.Config)) simulate.Config {
	c := simulate.Config{
		Nodes: 10, CPUs: 2, Tasks: 500, Mean: 10 * time.Millisecond, Detect: time.Second, Latency: 100 * time.Microsecond,
		Report: 100 * time.Millisecond, Seed: 1,
	}
	if change != nil {
		change(&c)
	}
	return c
}

// TestRuns: whatever is played ends with every task done once, takes no less than the work needs, and a second time is the same.
func TestRuns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := small(func(c *simulate.Config) {
			c.Nodes = rapid.IntRange(1, 12).Draw(t, "nodes")
			c.CPUs = rapid.IntRange(1, 4).Draw(t, "CPUs")
			c.Submitters = rapid.IntRange(0, c.Nodes).Draw(t, "submitters")
			c.Tasks = rapid.IntRange(1, 400).Draw(t, "tasks")
			c.Mean = rapid.SampledFrom([]time.Duration{time.Microsecond, time.Millisecond, time.Second}).Draw(t, "mean")
			c.Fixed = rapid.Bool().Draw(t, "fixed")
			c.Rate = rapid.SampledFrom([]float64{0, 10, 10_000}).Draw(t, "rate")
			c.Seed = rapid.Uint64().Draw(t, "seed")
			if rapid.Bool().Draw(t, "deaths") {
				c.Deaths = rapid.IntRange(0, max(c.Nodes-max(c.Submitters, 1)-1, 0)).Draw(t, "how many")
			}
			c.GPUEvery = rapid.IntRange(1, c.Nodes).Draw(t, "GPUs every")
			c.GPUs = rapid.IntRange(1, 3).Draw(t, "GPUs")
			c.GPUShare = rapid.SampledFrom([]float64{0, 0.1, 1}).Draw(t, "share")
		})
		r, err := simulate.Run(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		longest := time.Duration(0)
		var work time.Duration
		for i := range c.Tasks {
			longest = max(longest, c.Takes(i))
			if !c.WantsGPU(i) {
				work += c.Takes(i)
			}
		}
		if least := max(longest, work/time.Duration(c.Nodes*c.CPUs)); r.Done != c.Tasks || r.Makespan < least || r.Makespan < r.Ideal {
			t.Fatalf("%d of %d tasks in %v, which take %v at least; said to be %v", r.Done, c.Tasks, r.Makespan, least, r.Ideal)
		}
		again, err := simulate.Run(t.Context(), c)
		if again != r || err != nil {
			t.Fatalf("%+v, and again %+v, %v", r, again, err)
		}
	})
}

// TestDeaths: what dies with a node runs again elsewhere.
func TestDeaths(t *testing.T) {
	r, err := simulate.Run(t.Context(), small(func(c *simulate.Config) { c.Deaths, c.Mean = 5, 50*time.Millisecond }))
	if err != nil || r.Rerun == 0 || r.Done != 500 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestSentToTheDead: tasks that were on their way to a node when its death was noticed are sent elsewhere, also where nothing else happens.
func TestSentToTheDead(t *testing.T) {
	r, err := simulate.Run(t.Context(), small(func(c *simulate.Config) {
		c.Nodes, c.CPUs, c.GPUEvery, c.GPUs, c.GPUShare = 5, 4, 1, 2, 0.3
		c.Tasks, c.Deaths, c.Detect, c.Report = 1, 3, 50*time.Millisecond, 2*time.Millisecond
	}))
	if err != nil || r.Done != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestBalance: the work is done in little more than the least time, whether one node has all tasks or each has as many.
func TestBalance(t *testing.T) {
	for _, submitters := range []int{1, 10} {
		c := small(func(c *simulate.Config) { c.Submitters, c.Tasks, c.Fixed = submitters, 20*50, true })
		r, err := simulate.Run(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if ratio := float64(r.Makespan) / float64(r.Ideal); ratio > 1.1 {
			t.Errorf("%d submitters: %.2f of the ideal makespan: %+v", submitters, ratio, r)
		}
	}
}

func TestBadConfigs(t *testing.T) {
	for want, change := range map[string]func(*simulate.Config){
		"0 nodes":         func(c *simulate.Config) { c.Nodes = 0 },
		"0 CPUs":          func(c *simulate.Config) { c.CPUs = 0 },
		"-1 tasks":        func(c *simulate.Config) { c.Tasks = -1 },
		"11 submitters":   func(c *simulate.Config) { c.Submitters = 11 },
		"10 deaths":       func(c *simulate.Config) { c.Deaths = 10 },
		"latency 0s":      func(c *simulate.Config) { c.Latency = 0 },
		"a task -1ns":     func(c *simulate.Config) { c.Mean = -1 },
		"a rate of NaN":   func(c *simulate.Config) { c.Rate = math.NaN() },
		"a share of 2 ":   func(c *simulate.Config) { c.GPUShare = 2 },
		"no node has one": func(c *simulate.Config) { c.GPUShare = 0.5 },
		"8 deaths": func(c *simulate.Config) {
			c.GPUShare, c.GPUEvery, c.GPUs, c.Submitters, c.Deaths = 0.5, 10, 1, 2, 8
		},
		"100000 nodes of 65536 CPUs": func(c *simulate.Config) { c.Nodes, c.CPUs = 100_000, 1<<16 },
		"100000 nodes of 1024 GPUs":  func(c *simulate.Config) { c.Nodes, c.GPUEvery, c.GPUs = 100_000, 1, 1<<10 },
		"115740741 days at least":    func(c *simulate.Config) { c.Rate, c.Tasks = 0.00001, 100_000_000 },
		"days at least":              func(c *simulate.Config) { c.Mean, c.Tasks = 24*time.Hour, 1<<31-1 },
		"that know 100000 nodes":     func(c *simulate.Config) { c.Nodes, c.Submitters = 100_000, 1000 },
	} {
		if _, err := simulate.Run(t.Context(), small(change)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := simulate.Run(ctx, small(nil)); !errors.Is(err, context.Canceled) {
		t.Error("cancelled:", err)
	}
}

// BenchmarkTasks is the time of one task of a cluster of 100 nodes that all submit.
func BenchmarkTasks(b *testing.B) {
	c := small(func(c *simulate.Config) { c.Nodes, c.CPUs, c.Submitters, c.Tasks = 100, 8, 100, max(b.N, 1) })
	if _, err := simulate.Run(b.Context(), c); err != nil {
		b.Fatal(err)
	}
}
