package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/raysys/raysys/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// TestServesWhatItLearns: in one process and on three nodes the served policy becomes better while it is trained.
func TestServesWhatItLearns(t *testing.T) {
	for name, nodes := range map[string]int{"process": 0, "nodes": 3} {
		t.Run(name, func(t *testing.T) {
			svg := filepath.Join(t.TempDir(), "served.svg")
			var out bytes.Buffer
			if err := (loop{Actors: 4, Steps: 300_000, Servers: 3, Seed: 1}).report(testkit.New(t, testkit.Nodes(nodes), testkit.Loose()).Context(), true, svg, &out); err != nil {
				t.Fatal(err)
			}
			var o outcome
			if err := json.Unmarshal(out.Bytes(), &o); err != nil {
				t.Fatal(err)
			}
			t.Logf("served %.0f, then %.0f, %d episodes, %d versions; trained %.0f in %d steps", o.First, o.Last, len(o.Served), o.Versions, o.MeanReturn, o.Steps)
			if !o.Solved || o.Versions < 3 || o.Last < 3*o.First || o.Last < 300 {
				t.Error("it did not serve what it learned")
			}
			if drawn, err := os.ReadFile(svg); err != nil || !bytes.Contains(drawn, []byte("<polyline")) {
				t.Errorf("the drawing is %.100q, %v", drawn, err)
			}
		})
	}
}

func TestNotLearned(t *testing.T) {
	var out bytes.Buffer
	err := (loop{Actors: 2, Steps: 5000, Servers: 1, Seed: 1}).report(testkit.New(t).Context(), false, "", &out)
	if err == nil || !strings.HasPrefix(err.Error(), "not learned: the mean return is") || strings.Count(out.String(), "\n") != 2 {
		t.Errorf("%v\n%s", err, out.String())
	}
}
