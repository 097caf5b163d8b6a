package inspect_test

import (
	"testing"
	"time"

	"github.com/raysys/raysys/inspect"
)

// TestFunctionsSince: rates are those of the time between two looks, and only where the runs of both are of the same nodes.
func TestFunctionsSince(t *testing.T) {
	at := func(second int, silent []string, runs ...uint64) inspect.Functions {
		f := inspect.Functions{At: time.Unix(int64(second), 0), Silent: silent}
		for i, n := range runs {
			f.Functions = append(f.Functions, inspect.Function{Name: []string{"a", "b", "c"}[i], Kind: "task", Runs: n})
		}
		return f
	}
	silent := []string{"z: no answer"}
	for name, c := range map[string]struct {
		before, now inspect.Functions
		want        [3]float64
	}{
		"two seconds":              {at(10, nil, 5, 7, 9), at(12, nil, 10, 7, 10), [3]float64{2.5, 0, 0.5}},
		"the first look":           {inspect.Functions{}, at(12, nil, 10, 7, 9), [3]float64{}},
		"a new function":           {at(10, nil, 5, 7), at(11, nil, 6, 7, 9), [3]float64{1, 0, 0}},
		"a node left":              {at(10, nil, 5, 7, 9), at(11, nil, 4, 8, 9), [3]float64{0, 1, 0}},
		"a node has become silent": {at(10, nil, 5, 7, 9), at(11, silent, 6, 8, 10), [3]float64{}},
		"a node answers again":     {at(10, silent, 5, 7, 9), at(11, nil, 60, 80, 100), [3]float64{}},
		"the same moment":          {at(10, nil, 5, 7, 9), at(10, nil, 6, 8, 10), [3]float64{}},
	} {
		got := c.now.Since(c.before)
		for i := range got.Functions {
			if got.Functions[i].Rate != c.want[i] {
				t.Errorf("%s: the rate of %s is %v, want %v", name, got.Functions[i].Name, got.Functions[i].Rate, c.want[i])
			}
			if c.now.Functions[i].Rate != 0 {
				t.Errorf("%s: what was asked for is changed", name)
			}
		}
	}
	call := at(10, nil, 5)
	call.Functions[0].Kind = "call"
	if got := at(11, nil, 6).Since(call); got.Functions[0].Rate != 0 {
		t.Errorf("the rate of a task is that of a method of its name: %v", got.Functions[0].Rate)
	}
}
