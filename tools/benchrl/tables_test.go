package main

import (
	"strings"
	"testing"
)

// TestParse: the outcome is the last line, of the seed that was asked for, and of a run that took place.
func TestParse(t *testing.T) {
	o, err := parse([]byte("a library greets\n"+`{"seed": 3, "steps": 2048, "train_s": 1.5, "mean": 499.5, "reached": true}`+"\n"), 3)
	if want := (outcome{Seed: 3, Steps: 2048, Train: 1.5, Mean: 499.5, Reached: true}); err != nil || o != want {
		t.Errorf("%+v, %v", o, err)
	}
	for _, c := range []struct{ out, fails string }{
		{"", "its last line is"},
		{`{"seed": 3, "steps": 2048, "train_s": 1.5}` + "\nbye\n", `its last line is "bye"`},
		{`{"seed": 4, "steps": 2048, "train_s": 1.5}`, "no outcome of seed 3"},
		{`{"seed": 3, "steps": 0, "train_s": 1.5}`, "no outcome of seed 3"},
		{`{"seed": 3, "steps": 2048}`, "no outcome of seed 3"},
	} {
		if _, err := parse([]byte(c.out), 3); err == nil || !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%q: %v", c.out, err)
		}
	}
}

func TestTrainingTable(t *testing.T) {
	outcomes := func(beside float64, train ...float64) (list []outcome) {
		for i, x := range train {
			list = append(list, outcome{Steps: 1000 * (i + 1), Train: x, Reached: x < 9, beside: beside})
		}
		return list
	}
	made := trainingTable([]*contender{{name: "a", outcomes: outcomes(0.5, 1, 2, 4)}, {name: "b", outcomes: outcomes(3, 5, 8, 40)}})
	for _, want := range []string{
		"| a | 3 of 3 | 2.00, 1.00 to 4.00 | 1.00, 1.00 to 1.00 | 2000, 1000 to 3000 | 0.5 |\n",
		"| b | 2 of 3 | 8.00, 5.00 to 40.00 | 5.00, 4.00 to 10.00 | 2000, 1000 to 3000 | 3 |\n",
	} {
		if !strings.Contains(made, want) {
			t.Errorf("no line %s in\n%s", want, made)
		}
	}
}

// TestStepsTable: rows go by their medians, and ratios are to the fastest of gymnasium, whatever is ahead of it.
func TestStepsTable(t *testing.T) {
	made := stepsTable(map[string][]float64{ours[0]: {8e6, 9e6}, "slow": {1e6, 1e6}, "fast": {2e6, 4e6}})
	want := "| raysys, one goroutine | 8.5 M/s | 3.12, 2.25 to 4.00 |\n| fast | 3 M/s | 1.00, 1.00 to 1.00 |\n| slow | 1 M/s | 0.38, 0.25 to 0.50 |\n"
	if !strings.HasSuffix(made, want) {
		t.Error(made)
	}
}
