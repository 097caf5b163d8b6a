package sweep

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/raysys/raysys/rl"
)

// TestASHA plays a search with trials whose quality is their return at each rung: sequentially the rungs have 27, 9, 3 and 1 trials, with many at a time no
// fewer; what goes on was among the best third at that time; each job is made once, and the best trial makes all steps.
func TestASHA(t *testing.T) {
	for _, parallel := range []int{1, 4, 27} {
		for seed := range uint64(5) {
			rng := rand.New(rand.NewPCG(seed, 1))
			quality := rng.Perm(27)
			p, err := Plan{Trials: 27, Steps: 2700, Search: ASHA(3, 100), Parallel: parallel}.complete()
			if err != nil {
				t.Fatal(err)
			}
			rungs := p.Search.rungs(p.Steps)
			b := board{}
			var open []job
			started, made := map[job]bool{}, map[job]bool{}
			for {
				for len(open) < parallel {
					j, ok := b.next(&p, func(int) Setting { return Setting{} }, started)
					if !ok {
						break
					}
					if made[j] || started[j] {
						t.Fatalf("%+v comes twice", j)
					}
					if j.Rung > 0 {
						n, above := 0, 0
						for _, u := range b.Trials {
							if len(u.Rungs) >= j.Rung {
								if n++; u.Rungs[j.Rung-1].Return > float64(quality[j.Trial]) {
									above++
								}
							}
						}
						if above >= n/3 {
							t.Fatalf("trial %d goes on to rung %d with %d of %d above it", j.Trial, j.Rung, above, n)
						}
					}
					started[j] = true
					open = append(open, j)
				}
				if len(open) == 0 {
					break
				}
				i := rng.IntN(len(open))
				j := open[i]
				open = append(open[:i], open[i+1:]...)
				delete(started, j)
				made[j] = true
				b.takeResult(j, &came{Steps: rungs[j.Rung], Return: float64(quality[j.Trial])})
			}
			var counts [4]int
			for j := range made {
				counts[j.Rung]++
			}
			if counts[0] != 27 || counts[1] < 9 || counts[2] < 3 || counts[3] < 1 || counts[1] > 15 {
				t.Errorf("parallel %d, seed %d: the rungs have %v", parallel, seed, counts)
			}
			if best := b.Trials[b.best()]; quality[best.Number] != 26 || best.Last().Steps != 2700 {
				t.Errorf("parallel %d, seed %d: the best is %+v of quality %d", parallel, seed, best, quality[best.Number])
			}
			if last := b.Curve[len(b.Curve)-1]; last.Return != 26 || last.Steps != b.Steps || b.Steps < 2700 {
				t.Errorf("the curve ends at %+v, with %d steps", last, b.Steps)
			}
		}
	}
}

// TestDiverged: a trial that diverged is never tried again, and counts as the worst of its rung.
func TestDiverged(t *testing.T) {
	p, err := Plan{Trials: 3, Steps: 300, Search: ASHA(3, 100)}.complete()
	if err != nil {
		t.Fatal(err)
	}
	b := board{}
	for i := range 3 {
		j, ok := b.next(&p, func(int) Setting { return nil }, nil)
		if !ok || j != (job{i, 0}) {
			t.Fatal(j, ok)
		}
		b.takeResult(j, &came{Steps: 100, Return: float64(i), Diverged: i == 2})
	}
	j, ok := b.next(&p, nil, nil)
	if !ok || j != (job{1, 1}) {
		t.Errorf("%+v %v goes on", j, ok)
	}
	b.takeResult(j, &came{Steps: 300, Return: 1})
	if j, ok := b.next(&p, nil, nil); ok || b.best() != 1 {
		t.Errorf("%+v goes on, and the best is %d", j, b.best())
	}
}

// TestBoardCounts: the steps of a sweep are those that its trials have made, each once, and a trial that reached the Stop is before one with a higher return.
func TestBoardCounts(t *testing.T) {
	b := board{Trials: []Trial{{Number: 0}, {Number: 1}}}
	for _, c := range []struct {
		trial, steps int
		mean         float64
		solved       bool
		all, best    int
	}{{0, 100, 1, false, 100, 0}, {0, 300, 2, false, 300, 0}, {1, 100, 0.5, false, 400, 0}, {1, 200, 1.5, true, 500, 1}, {0, 900, 9, false, 1100, 1}} {
		b.takeResult(job{c.trial, len(b.Trials[c.trial].Rungs)}, &came{Steps: c.steps, Return: c.mean, Solved: c.solved})
		if last := b.Curve[len(b.Curve)-1]; b.Steps != c.all || last.Steps != c.all || b.best() != c.best || last.Return != b.Trials[c.best].Last().Return {
			t.Errorf("after %+v: %d steps, the best is %d, and the curve ends at %+v", c, b.Steps, b.best(), last)
		}
	}
}

// TestDraw: settings are within their ranges, follow from seed and number, and a Log has each order of magnitude as often.
func TestDraw(t *testing.T) {
	s := Space{"u": Uniform(-1, 3), "l": Log(1e-4, 1), "c": Choice(1, 3, 5)}
	var u float64
	small, of := 0, map[int]int{}
	for i := range 3000 {
		x := s.draw(7, i)
		if x.Float("u") < -1 || x.Float("u") > 3 || x.Float("l") < 1e-4 || x.Float("l") > 1.0000001 {
			t.Fatal(x)
		}
		u += x.Float("u") / 3000
		if x.Float("l") < 1e-2 {
			small++
		}
		of[x.Int("c")]++
	}
	if math.Abs(u-1) > 0.1 || small < 1400 || small > 1600 || len(of) != 3 || of[3] < 900 || of[3] > 1100 {
		t.Errorf("mean %v, %d small ones, choices %v", u, small, of)
	}
	if a, b, c := s.draw(7, 5).String(), s.draw(7, 5).String(), s.draw(8, 5).String(); a != b || a == c {
		t.Error(a, b, c)
	}
}

// TestPlans: what cannot be meant says what, where and what to do.
func TestPlans(t *testing.T) {
	for want, p := range map[string]Plan{
		"Plan.Trials is 0":                 {Steps: 1},
		"Plan.Steps is -1":                 {Trials: 1, Steps: -1},
		"Plan.Parallel is -1":              {Trials: 1, Steps: 1, Parallel: -1},
		"ASHA(1, 10): give an eta":         {Trials: 1, Steps: 100, Search: ASHA(1, 10)},
		"ASHA(3, 200): give an eta":        {Trials: 1, Steps: 100, Search: ASHA(3, 200)},
		`Plan.Log is "x.csv"`:              {Trials: 1, Steps: 1, Log: "x.csv"},
		"Plan.Trials is 8: ASHA(3, 10) ha": {Trials: 8, Steps: 90, Search: ASHA(3, 10)},
	} {
		if _, err := p.complete(); !errors.Is(err, rl.ErrPlan) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for want, r := range map[string]Range{
		"is empty": {}, "goes from 2 down to 1": Uniform(2, 1), "is a Log from 0": Log(0, 1), "not finite": Choice(math.NaN()),
	} {
		if got := r.check(); !strings.Contains(got, want) {
			t.Errorf("%q, want %s", got, want)
		}
	}
}
