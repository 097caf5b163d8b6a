package main

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		args, talk string
		code       int
	}{
		{"-mode allreduce,sync -rows 50", "", 0},
		{"-mode nothing", `there is no mode "nothing"`, 2},
		{"-workers 0", "workers, steps and rows are 1 or more", 2},
		{"-bogus", "flag provided but not defined: -bogus", 2},
		{"now", `sgd takes no argument, and was given "now"`, 2},
		{"-steps 2 -mode sync", "error: not fitted: sync ends ", 1},
	} {
		var stdout, stderr bytes.Buffer
		t.Setenv("RAYSYS_CONSUL", "")
		code := run(t.Context(), strings.Fields(c.args), &stdout, &stderr)
		if code != c.code || !strings.Contains(stderr.String(), c.talk) {
			t.Errorf("%q: exit %d, want %d; standard error %q", c.args, code, c.code, stderr.String())
		}
		if c.code == 0 && strings.Count(stdout.String(), "\n") != 3 {
			t.Errorf("%q reports\n%s", c.args, stdout.String())
		}
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupt signal received"))
	var stdout, stderr bytes.Buffer
	if code := run(ctx, nil, &stdout, &stderr); code != 1 {
		t.Errorf("exit %d, %q", code, stderr.String())
	}
}

// TestClosedForm: at the optimum the gradient is zero.
func TestClosedForm(t *testing.T) {
	p := problem{Seed: 3, Workers: 3, Rows: 40, Features: 6}
	w := p.best()
	sum := make([]float64, p.Features)
	for worker := range p.Workers {
		xs, ys := p.rows(worker)
		for i, g := range gradient(xs, ys, w) {
			sum[i] += g
		}
	}
	for i, g := range sum {
		if math.Abs(g) > 1e-12 {
			t.Errorf("element %d of the gradient is %g", i, g)
		}
	}
	w[2] += 0.1
	if p.loss(w) <= p.loss(p.best()) {
		t.Error("the loss is not the least at the optimum")
	}
}

// TestFits runs every mode in one process and on a cluster.
func TestFits(t *testing.T) {
	p := problem{Seed: 2, Workers: 3, Rows: 200, Features: 5, Steps: 80}
	for name, opts := range map[string][]testkit.Option{"process": {testkit.Loose()}, "strict": nil, "cluster": {testkit.Nodes(3)}} {
		t.Run(name, func(t *testing.T) {
			k := testkit.New(t, opts...)
			for mode := range ways {
				f, err := p.fit(k.Context(), mode)
				if err == nil {
					err = f.check(mode)
				}
				if err != nil {
					t.Errorf("%s: %v", mode, err)
				}
			}
		})
	}
}

// TestLostWorker kills a node while the ranks are at work: they join again and come to the same result.
func TestLostWorker(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(3))
	p := problem{Seed: 2, Workers: 3, Rows: 20, Features: 5, Steps: 1500}
	type result struct {
		f   fit
		err error
	}
	done := make(chan result, 1)
	go func() {
		f, err := p.fit(k.Context(), "allreduce")
		done <- result{f, err}
	}()
	// A participant on a node says that its rank has joined.
	participants := func() (on map[raysys.NodeID]int, all int) {
		on = map[raysys.NodeID]int{}
		st, err := k.Cluster().Status()
		if err != nil {
			t.Error(err)
		}
		for _, n := range st.Nodes {
			on[n.Name] = n.Grains["sgd.gradients.participant"]
			all += on[n.Name]
		}
		return on, all
	}
	testkit.Eventually(t, 20*time.Second, "all ranks have their participants", func() bool {
		_, all := participants()
		return all == 3
	})
	on, _ := participants()
	for i := 1; i <= 3; i++ {
		if on[k.Cluster().Node(i).Name()] > 0 {
			k.Cluster().Kill(i)
			break
		}
	}
	r := <-done
	if r.err == nil {
		r.err = r.f.check("allreduce")
	}
	if r.err != nil {
		t.Error(r.err)
	}
}
