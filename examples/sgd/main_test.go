package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// parse parses a command line, as main does.
func parse(args string) (*flags, error) {
	set := flag.NewFlagSet("sgd", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	f := define(set)
	if err := set.Parse(strings.Fields(args)); err != nil {
		return nil, err
	}
	return f, f.check(set.Args())
}

func TestUsage(t *testing.T) {
	for args, want := range map[string]string{
		"-o xml":        `-o is "xml", and has to be text or json`,
		"-mode nothing": `there is no mode "nothing"`,
		"-workers 0":    "workers, steps and rows are 1 or more",
		"-bogus":        "flag provided but not defined: -bogus",
		"now":           `sgd takes no argument, and was given "now"`,
	} {
		if _, err := parse(args); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
}

// report is what a command line prints.
func report(t *testing.T, args string) (string, error) {
	t.Helper()
	f, err := parse(args)
	if err != nil {
		t.Fatal(err)
	}
	var stdout bytes.Buffer
	err = f.report(testkit.New(t, testkit.Loose()).Context(), f.modes, f.form, &stdout)
	return stdout.String(), err
}

func TestText(t *testing.T) {
	if out, err := report(t, "-mode allreduce,sync -rows 50"); err != nil || strings.Count(out, "\n") != 3 {
		t.Error(err, out)
	}
	if _, err := report(t, "-steps 2 -mode sync"); err == nil || !strings.HasPrefix(err.Error(), "not fitted: sync ends ") {
		t.Error(err)
	}
}

// TestJSON: the steps, the bytes and the loss of each mode.
func TestJSON(t *testing.T) {
	const workers, steps, features = 3, 60, 10
	out, err := report(t, "-o json -rows 200 -workers 3 -steps 60")
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Seed    uint64
		Workers int
		Modes   []figures
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || got.Workers != workers || got.Seed != 1 || len(got.Modes) != 3 {
		t.Fatalf("%v, %s", err, out)
	}
	vector := numberBytes * features
	want := map[string]struct{ steps, least, most int }{
		"allreduce": {steps, 2 * workers * steps * vector, 2 * workers * steps * vector},
		"sync":      {steps, 2 * workers * steps * vector, 2 * workers * (steps + 1) * vector},
		"async":     {10 * workers * steps, 10 * workers * steps * vector, 1 << 30}, // a push that was stale is moved too, and weights are pulled when they have changed
	}
	p := problem{Seed: 1, Workers: workers, Rows: 200, Features: features}
	least := p.loss(p.best())
	for _, f := range got.Modes {
		w := want[f.Mode]
		if f.Steps < w.steps || f.Moved < w.least || f.Moved > w.most || f.Rate <= 0 || f.Seconds <= 0 {
			t.Errorf("%s: %+v, want %+v", f.Mode, f, w)
		}
		if f.Loss < least || f.Loss > least*(1+asyncExcess) {
			t.Errorf("%s: loss %v, and the least is %v", f.Mode, f.Loss, least)
		}
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

// TestLostWorker kills a node while the ranks are at work: they join again, and end at the loss of a run in which nothing was lost, to the last bit.
func TestLostWorker(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(3))
	p := problem{Seed: 2, Workers: 3, Rows: 20, Features: 5, Steps: 4000, Rate: 0.0002} // far from the optimum at the end: a step too many or too few shows
	type result struct {
		f   fit
		err error
	}
	done := make(chan result, 1)
	before := stepped.Load()
	go func() {
		f, err := p.fit(k.Context(), "allreduce")
		done <- result{f, err}
	}()
	// A participant on a node says that its rank has joined.
	participants := func() map[raysys.NodeID]int {
		on := map[raysys.NodeID]int{}
		st, err := k.Cluster().Status()
		if err != nil {
			t.Error(err)
		}
		for _, n := range st.Nodes {
			on[n.Name] = n.Grains["sgd.gradients.participant"]
		}
		return on
	}
	testkit.Eventually(t, 20*time.Second, "the ranks have made steps", func() bool { return stepped.Load() > before+300 })
	on := participants()
	for i := 1; i <= 3; i++ {
		if on[k.Cluster().Node(i).Name()] > 0 {
			k.Cluster().Kill(i)
			break
		}
	}
	r := <-done
	if r.err != nil {
		t.Fatal(r.err)
	}
	if r.f.Joins <= p.Workers {
		t.Errorf("%d ranks joined %d times: the node was killed when the run had ended", p.Workers, r.f.Joins)
	}
	whole, err := p.fit(testkit.New(t).Context(), "allreduce")
	if least := p.loss(p.best()); whole.loss < 2*least {
		t.Errorf("the loss is %v, and the least is %v: too near to tell runs apart", whole.loss, least)
	}
	if err != nil || whole.loss != r.f.loss || whole.Joins != p.Workers {
		t.Errorf("the loss is %v with a rank lost, and %v without: %d joins, %v", r.f.loss, whole.loss, whole.Joins, err)
	}
}
