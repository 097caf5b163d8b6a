package rl_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys/rl"
)

var update = flag.Bool("update", false, "write the files of testdata")

// golden compares with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(read(t, file), got); diff != "" {
		t.Errorf("%s (write it by -update):\n%s", file, diff)
	}
}

var nan = math.NaN()

// catchRun is a run that reaches its goal, as exp(-steps/scale) falls.
func catchRun(seed uint64, actors int, scale float64) *rl.Run {
	r := &rl.Run{
		Name: "catch-dqn", Env: rl.Spec{Name: "Catch"}, Seed: seed, Actors: actors, Solved: true, MeanReturn: 0.98, RandomReturn: -0.5625 - float64(seed)/64,
		Goal: 0.95, Took: 12300 * time.Millisecond,
	}
	for steps := 400; ; steps += 400 {
		gone := round(math.Exp(-float64(steps) / scale))
		p := rl.Point{
			Steps: steps, Episodes: steps / 9, LearnerSteps: steps / 4, Seconds: float64(steps) / 1600, Evaluated: nan, Loss: round(gone / 8), Age: int(seed),
			Return: round(1 - 1.6*gone + 0.3*gone*math.Sin(float64(steps)*float64(seed))),
		}
		if p.Return > 0.85 {
			p.Evaluated = round(p.Return + 0.03)
		}
		if r.Points = append(r.Points, p); p.Evaluated >= r.Goal || steps == 20_000 {
			break
		}
	}
	last := r.Points[len(r.Points)-1]
	r.Steps, r.Episodes, r.LearnerSteps = last.Steps, last.Episodes, last.LearnerSteps
	last.Return, last.Evaluated = nan, r.MeanReturn
	r.Points = append(r.Points, last)
	r.Points[0].Return, r.Points[0].Loss = nan, nan // no episode has ended, and nothing was learned
	return r
}

// round keeps the digits that are the same on all processors.
func round(x float64) float64 { return math.Round(x*1e4) / 1e4 }

func TestWriteCSV(t *testing.T) {
	var b bytes.Buffer
	if err := catchRun(1, 1, 4_000).WriteCSV(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "catch.csv", b.String())
	b.Reset()
	if err := (&rl.Run{}).WriteCSV(&b); err != nil || b.String() != "steps,episodes,learner_steps,seconds,return,evaluated,loss,age\n" {
		t.Errorf("a run without points wrote %q, %v", b.String(), err)
	}
}

func TestJSONLRoundTrip(t *testing.T) {
	want := append(catchRun(1, 1, 4_000).Points,
		rl.Point{Steps: 1, Return: -1e300, Evaluated: 5e-324, Loss: math.MaxFloat64},
		rl.Point{Steps: math.MaxInt, Episodes: 2, LearnerSteps: 3, Seconds: 1e-9, Return: 0.1, Evaluated: 0, Loss: 1e21, Age: 4})
	var b bytes.Buffer
	if err := (&rl.Run{Points: want}).WriteJSONL(&b); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, pointsOf(t, b.String()), sameNaN); diff != "" {
		t.Errorf("points read back differ:\n%s", diff)
	}
	if first, _, _ := strings.Cut(b.String(), "\n"); first != `{"steps":400,"episodes":44,"learner_steps":100,"age":1,"seconds":0.25,"return":null,"evaluated":null,"loss":null}` {
		t.Errorf("the first line is %s", first)
	}
}

func TestPointFromJSON(t *testing.T) {
	p := rl.Point{Return: 1, Evaluated: 2, Loss: 3}
	if err := json.Unmarshal([]byte(`{"steps": 7, "loss": 0.5}`), &p); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rl.Point{Steps: 7, Seconds: nan, Return: nan, Evaluated: nan, Loss: 0.5}, p, sameNaN); diff != "" {
		t.Errorf("numbers that are not there have to be NaN:\n%s", diff)
	}
	if err := json.Unmarshal([]byte(`{"return": "high"}`), &p); err == nil {
		t.Error("a word is taken for a return")
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

var errFull = errors.New("the disk is full")

func TestWriteErrors(t *testing.T) {
	r := catchRun(1, 1, 4_000)
	for _, err := range []error{r.WriteCSV(full{}), r.WriteJSONL(full{})} {
		if !errors.Is(err, errFull) {
			t.Errorf("the error is %v, want that of the writer", err)
		}
	}
}
