package main

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// TestLearns: hundreds of actors learn Catch within 10,000 episodes, while a tenth of them leaves memory each second, or more often in the short form, which
// ends soon.
func TestLearns(t *testing.T) {
	var episodes []int
	for seed := range long.Form[uint64](1, 5) {
		k := testkit.New(t, testkit.Nodes(long.Form(3, 0)), testkit.Loose())
		before := made.Load()
		r, err := learning{Actors: long.Form(51, 512), Episodes: 10_000, Seed: seed + 1, Each: long.Form(200*time.Millisecond, time.Second)}.run(k.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("seed %d: %.2f after %d episodes, %d left memory, ages %v, %s", seed+1, r.MeanReturn, r.Episodes, r.unloaded, agesOf(r.Run), r.Took)
		if !r.Solved || r.Episodes > 10_000 {
			t.Errorf("not learned: %v", r.Run)
		}
		if back := backOf(r.Run, int(made.Load()-before)); r.unloaded == 0 || back < r.unloaded/2 {
			t.Errorf("%d times an actor left memory, and %d times one came back", r.unloaded, back)
		}
		episodes = append(episodes, r.Episodes)
	}
	slices.Sort(episodes)
	t.Logf("median %d episodes", episodes[len(episodes)/2])
}

// backOf is how often an actor of a run came back to memory, by the environments that were made. The others are two for random actions, one for each
// evaluation, and another where that reached the goal.
func backOf(r *rl.Run, made int) int {
	made -= 2 + r.Actors
	for _, p := range r.Points {
		if p.Evaluated >= r.Goal {
			made -= 2
		} else if !math.IsNaN(p.Evaluated) {
			made--
		}
	}
	return made
}

// TestReads: what is published is what is read, each way. The long form has the size that the figures are of, and prints them.
func TestReads(t *testing.T) {
	p := testkit.Processes(t, long.Form(2, 3), testkit.Loose())
	p.Ready()
	f := flags{part: "read", form: "text", read: reading{long.Form(8, 128), long.Form(1<<18, 16<<20), long.Form(2, 5)}}
	var out bytes.Buffer
	if err := f.run(p.Context(), &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + out.String())
	if n := strings.Count(out.String(), "\n"); n != 5 {
		t.Errorf("%d lines", n)
	}
}

// TestReport: all parts, as JSON, and the drawing.
func TestReport(t *testing.T) {
	svg := filepath.Join(t.TempDir(), "ages.svg")
	f := flags{part: "all", form: "json", svg: svg, learn: learning{Actors: 4, Episodes: 200, Seed: 1, Each: time.Second}, read: reading{4, 1 << 16, 2}}
	var out bytes.Buffer
	err := f.run(testkit.New(t).Context(), &out, io.Discard)
	if err == nil || !strings.HasPrefix(err.Error(), "not learned: the mean return is") {
		t.Error(err)
	}
	var r report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil || r.Actors != 4 || r.Episodes == 0 || len(r.Ages) == 0 || r.MeanRatio <= 0 || r.P99Ratio <= 0 {
		t.Errorf("%v %s", err, out.Bytes())
	}
	if drawn, err := os.ReadFile(svg); err != nil || bytes.Count(drawn, []byte("<title>")) != len(r.Ages) {
		t.Errorf("the drawing is %.200q, %v", drawn, err)
	}
}

func TestUsage(t *testing.T) {
	good := flags{part: "all", form: "text", learn: learning{Actors: 1, Episodes: 1}, read: reading{1, 4, 2}}
	if s := good.check(); s != "" {
		t.Error(s)
	}
	for want, spoil := range map[string]func(f *flags){
		"-part is": func(f *flags) { f.part = "some" },
		"-o is":    func(f *flags) { f.form = "xml" },
		"rounds 2": func(f *flags) { f.read.Rounds = 1 },
	} {
		f := good
		spoil(&f)
		if s := f.check(); !strings.Contains(s, want) {
			t.Errorf("%q, want %q", s, want)
		}
	}
}
