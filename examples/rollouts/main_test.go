package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// report of a command with these flags, as JSON.
func (f flags) reports(t *testing.T, ctx context.Context) (r report) {
	t.Helper()
	var out, progress bytes.Buffer
	f.form = "json"
	if err := f.run(ctx, &out, &progress); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + progress.String() + out.String())
	return r
}

// holds says that both ways played what the seed says, in each place the same.
func (r report) holds(t *testing.T, w workload) {
	t.Helper()
	steps := 0
	for i := range w.Actors * w.Rounds {
		steps += w.episode(i).length()
	}
	for _, c := range []comparison{r.Waiting, r.Pendulum} {
		if c.Async.Steps != steps || c.Bulk.Steps != steps || c.Async.Rate <= 0 || c.Bulk.Rate <= 0 {
			t.Errorf("%d episodes of %d steps: %+v", w.Actors*w.Rounds, steps, c)
		}
		if math.Abs(c.Async.Returns-c.Bulk.Returns) > 1e-6*math.Abs(c.Bulk.Returns) { // they are added up in another order
			t.Errorf("returns of %v asynchronously, and %v bulk-synchronously", c.Async.Returns, c.Bulk.Returns)
		}
	}
	if r.Pendulum.Bulk.Returns >= 0 || r.AsyncRatio != r.Waiting.Ratio || r.Episodes != w.Actors*w.Rounds {
		t.Errorf("%+v", r)
	}
}

// TestRatio: asynchronous actors play more than 1.5 times as many steps as those that wait for each other, in one process and on three. The long form
// alone says so of the clock.
func TestRatio(t *testing.T) {
	f := flags{workload: workload{Seed: 1, Actors: long.Form(3, 8), Rounds: long.Form(2, 40)}, repeat: long.Form(1, 3)}
	p := testkit.Processes(t, 3, testkit.Loose())
	p.Ready()
	for where, ctx := range map[string]context.Context{"process": testkit.New(t, testkit.Loose()).Context(), "three nodes": p.Context()} {
		t.Run(where, func(t *testing.T) {
			r := f.reports(t, ctx)
			r.holds(t, f.workload)
			if long.Form(false, true) && r.AsyncRatio < 1.5 {
				t.Errorf("the ratio is %.2f, and the lengths allow %.2f", r.AsyncRatio, r.Bound)
			}
		})
	}
}

// TestBound: the mean of the longest of 8 lengths between 10 and 1,000 over their mean. Of n even draws from 0 to 1 the largest is n/(n+1) on average.
func TestBound(t *testing.T) {
	want := (shortest + float64(longest-shortest)*8/9) / ((shortest + longest) / 2)
	if got := (workload{Seed: 1, Actors: 8, Rounds: 20_000}).bound(); math.Abs(got-want) > 0.01 {
		t.Errorf("the bound is %.3f, want %.3f", got, want)
	}
	if got := (workload{Seed: 1, Actors: 1, Rounds: 50}).bound(); got != 1 {
		t.Errorf("one actor waits for none, and the bound is %v", got)
	}
	if a, b := (workload{Seed: 1, Actors: 8, Rounds: 3}).bound(), (workload{Seed: 2, Actors: 8, Rounds: 3}).bound(); a == b {
		t.Error("the seed changes nothing")
	}
}

// TestReport: the text, and the drawing.
func TestReport(t *testing.T) {
	svg := filepath.Join(t.TempDir(), "rollouts.svg")
	f := flags{workload: workload{Seed: 3, Actors: 2, Rounds: 2}, repeat: 1, form: "text", svg: svg}
	var out bytes.Buffer
	if err := f.run(testkit.New(t).Context(), &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\n"); n != 5 || !strings.Contains(out.String(), "the lengths allow a ratio of 1.") {
		t.Errorf("%d lines:\n%s", n, out.String())
	}
	drawn, err := os.ReadFile(svg)
	if bars := bytes.Count(drawn, []byte("<title>")); err != nil || bars != 8 || xml.Unmarshal(drawn, new(struct{})) != nil {
		t.Errorf("%d bars of 4 episodes in two ways, %v\n%s", bars, err, drawn)
	}
}

// TestInterrupted: actors stop with their caller, also those that compute.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(testkit.New(t).Context())
	stop := errors.New("interrupt signal received")
	cancel(stop)
	if _, err := swing(ctx, 1, 1<<40); !errors.Is(err, stop) {
		t.Error(err)
	}
	if err := wait(ctx, 1<<60); !errors.Is(err, stop) {
		t.Error(err)
	}
	f := flags{workload: workload{Seed: 1, Actors: 2, Rounds: 1}, repeat: 1}
	if err := f.run(ctx, io.Discard, io.Discard); err == nil {
		t.Error("no error")
	}
}

func TestUsage(t *testing.T) {
	good := flags{workload: workload{Actors: 1, Rounds: 1}, repeat: 1, form: "text"}
	if s := good.check(); s != "" {
		t.Error(s)
	}
	for _, c := range []struct {
		want  string
		spoil func(f *flags)
	}{
		{`-o is "xml": give text or json`, func(f *flags) { f.form = "xml" }},
		{"-actors, -rounds and -repeat are 1 or more", func(f *flags) { f.Actors = 0 }},
		{"-actors, -rounds and -repeat are 1 or more", func(f *flags) { f.repeat = 0 }},
	} {
		f := good
		c.spoil(&f)
		if s := f.check(); s != c.want {
			t.Errorf("%q, want %q", s, c.want)
		}
	}
}
