package raysys_test

import (
	"testing"

	"github.com/raysys/raysys"
)

// TestStuck: a wait for some of several is stuck only when fewer than it needs can come.
func TestStuck(t *testing.T) {
	ends := raysys.Waiting{Need: 1, Free: 1} // waits for what needs nobody
	for name, c := range map[string]struct {
		waits []raysys.Waiting
		stuck bool
	}{
		"nothing":                            {nil, false},
		"itself":                             {[]raysys.Waiting{{Need: 1, On: []int{0}}}, true},
		"one of two, one in a cycle":         {[]raysys.Waiting{{Need: 1, On: []int{0, 1}}, ends}, false},
		"two of two, one in a cycle":         {[]raysys.Waiting{{Need: 2, On: []int{0, 1}}, ends}, true},
		"one of two, one free":               {[]raysys.Waiting{{Need: 1, Free: 1, On: []int{0}}}, false},
		"one of three, two can come":         {[]raysys.Waiting{{Need: 1, Free: 1, On: []int{0, 1}}, ends}, false},
		"two of three, one in a cycle":       {[]raysys.Waiting{{Need: 2, Free: 1, On: []int{0, 1}}, ends}, false},
		"one of two, both in cycles":         {[]raysys.Waiting{{Need: 1, On: []int{0, 1}}, {Need: 1, On: []int{0}}}, true},
		"behind a cycle of others":           {[]raysys.Waiting{{Need: 1, On: []int{1}}, {Need: 1, On: []int{2}}, {Need: 1, On: []int{1}}}, true},
		"behind one that waits for either":   {[]raysys.Waiting{{Need: 1, On: []int{1}}, {Need: 1, On: []int{0, 2}}, ends}, false},
		"the end of a long way can go on":    {[]raysys.Waiting{{Need: 1, On: []int{1}}, {Need: 1, On: []int{2}}, ends}, false},
		"a wait that needs nothing any more": {[]raysys.Waiting{{}}, false},
	} {
		if got := raysys.Stuck(c.waits); got != c.stuck {
			t.Errorf("%s: stuck %v, want %v: a wait for k of many is stuck only when fewer than k can come", name, got, c.stuck)
		}
	}
}
