package core_test

import (
	"testing"

	"github.com/raysys/raysys/internal/core"
)

// TestStuck: a wait for some of several is stuck only when fewer than it needs can come.
func TestStuck(t *testing.T) {
	ends := core.Waiting{Need: 1, Free: 1} // waits for what needs nobody
	for name, c := range map[string]struct {
		waits []core.Waiting
		stuck bool
	}{
		"nothing":                            {nil, false},
		"itself":                             {[]core.Waiting{{Need: 1, On: []int{0}}}, true},
		"one of two, one in a cycle":         {[]core.Waiting{{Need: 1, On: []int{0, 1}}, ends}, false},
		"two of two, one in a cycle":         {[]core.Waiting{{Need: 2, On: []int{0, 1}}, ends}, true},
		"one of two, one free":               {[]core.Waiting{{Need: 1, Free: 1, On: []int{0}}}, false},
		"one of three, two can come":         {[]core.Waiting{{Need: 1, Free: 1, On: []int{0, 1}}, ends}, false},
		"two of three, one in a cycle":       {[]core.Waiting{{Need: 2, Free: 1, On: []int{0, 1}}, ends}, false},
		"one of two, both in cycles":         {[]core.Waiting{{Need: 1, On: []int{0, 1}}, {Need: 1, On: []int{0}}}, true},
		"behind a cycle of others":           {[]core.Waiting{{Need: 1, On: []int{1}}, {Need: 1, On: []int{2}}, {Need: 1, On: []int{1}}}, true},
		"behind one that waits for either":   {[]core.Waiting{{Need: 1, On: []int{1}}, {Need: 1, On: []int{0, 2}}, ends}, false},
		"the end of a long way can go on":    {[]core.Waiting{{Need: 1, On: []int{1}}, {Need: 1, On: []int{2}}, ends}, false},
		"a wait that needs nothing any more": {[]core.Waiting{{}}, false},
	} {
		if got := core.Stuck(c.waits); got != c.stuck {
			t.Errorf("%s: stuck %v, want %v: a wait for k of many is stuck only when fewer than k can come", name, got, c.stuck)
		}
	}
}
