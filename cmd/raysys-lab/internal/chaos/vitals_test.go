package chaos

import "testing"

// TestFlat: what is needed at last is compared with what was needed after the warm-up, whatever came in between.
func TestFlat(t *testing.T) {
	samples := func(files func(i int) int) (list []Needs) {
		for i := range 60 {
			list = append(list, Needs{Driver: Vitals{Files: files(i)}, Keys: 1000})
		}
		return list
	}
	for name, c := range map[string]struct {
		files func(i int) int
		grown int
	}{
		"flat":            {func(int) int { return 100 }, 0},
		"warms up":        {func(i int) int { return min(10*i, 100) }, 0},
		"has a busy time": {func(i int) int { return 100 + 1000*(i/30%2)*(1-i/45) }, 0},
		"leaks":           {func(i int) int { return 100 + 5*i }, 1},
	} {
		if _, last, grown := flat(samples(c.files)); len(grown) != c.grown || last.Keys != 1000 {
			t.Errorf("what %s: %v, at last %v", name, grown, last)
		}
	}
	if _, last, grown := flat(samples(func(i int) int { return 100 * i })[:5]); grown != nil || last != (Needs{}) {
		t.Errorf("a round too short to show anything: %v, %v", last, grown)
	}
}
