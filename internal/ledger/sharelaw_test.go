package ledger

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/raysys/raysys/internal/core"
)

// clocked is a line on a clock that a test moves, and the work that runs.
type clocked struct {
	*Line
	now    int64
	grants int
	runs   []*timed
}

// timed is work that takes some time.
type timed struct {
	piece
	takes  time.Duration
	hold   *Hold
	ends   int64
	pushed int // grants before it was pushed
}

func newClocked(total Need, devices []Device) *clocked {
	c := &clocked{Line: newLine(total, devices)}
	c.hooks.Now = func() int64 { return c.now }
	return c
}

func (c *clocked) push(n Need, w *timed, granted func(*timed)) {
	w.pushed = c.grants
	w.granted = func(_ *piece, h *Hold) {
		c.grants++
		w.hold, w.ends = h, c.now+int64(w.takes)
		c.runs = append(c.runs, w)
		granted(w)
	}
	c.Push(n, w)
}

// step moves the clock to when the next work ends, and gives back what that has.
func (c *clocked) step() {
	next := slices.MinFunc(c.runs, func(a, b *timed) int { return int(a.ends - b.ends) })
	c.runs = slices.DeleteFunc(c.runs, func(w *timed) bool { return w == next })
	c.now = next.ends
	c.Return(next.hold)
}

// TestSharesLaw: of jobs that all have work waiting, none is further behind for its weight than by what is counted of it late: of whatever lengths
// their work is, and whatever it asks for as long as all ask for the same. In a bundle, too.
func TestSharesLaw(t *testing.T) {
	needs := []Need{{GPU: 1000}, {GPU: 500}, {CPU: 2000}, {Memory: 40}, {CPU: 500, Custom: map[string]int64{"licence": 1000}}}
	total := Need{CPU: 4000, Memory: 100, Custom: map[string]int64{"licence": 3000}}
	rapid.Check(t, func(t *rapid.T) {
		c := newClocked(total, eight("H100")[:2])
		need := rapid.SampledFrom(needs).Draw(t, "need")
		if rapid.Bool().Draw(t, "in a bundle") {
			whole := total
			whole.GPU = 2000
			carve(c.Line, core.Bundle{Group: "g"}, whole)
			node := c.shares
			if c.Line = &c.bundles[core.Bundle{Group: "g"}].Line; c.shares != node {
				t.Fatal("a bundle has an account of its own")
			}
			need.Bundle = core.Bundle{Group: "g"}
		}
		const longest = 40 * time.Millisecond
		jobs := make([]*core.Job, rapid.IntRange(2, 4).Draw(t, "jobs"))
		got := map[*core.Job]time.Duration{}
		lengths := rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.Int64Range(1, int64(longest)).Draw(t, "takes"))
		})
		var push func(j *core.Job)
		push = func(j *core.Job) {
			c.push(need, &timed{piece: piece{job: j}, takes: lengths.Draw(t, "length")}, func(w *timed) {
				got[j] += w.takes / time.Duration(j.Weight)
				push(j)
			})
		}
		blocks := &timed{piece: piece{}, takes: longest}
		c.push(Need{CPU: 4000, GPU: 2000, Memory: 100, Custom: map[string]int64{"licence": 3000}, Bundle: need.Bundle}, blocks, func(*timed) {})
		for i := range jobs {
			jobs[i] = &core.Job{Weight: rapid.IntRange(1, 5).Draw(t, "weight")}
			push(jobs[i])
		}
		for range 300 {
			c.step()
		}
		most, least := got[jobs[0]], got[jobs[0]]
		for _, j := range jobs {
			most, least = max(most, got[j]), min(least, got[j])
		}
		if late := 5 * longest; most-least > late { // at most four run at once
			t.Errorf("for their weights jobs have had from %v to %v", least, most)
		}
	})
}

// TestNothingStarvesInLine: whatever work of jobs and of none waits, of whatever shapes, classes and lengths, and whichever keeps coming, each is granted
// within a bound of grants, and no device is held twice.
func TestNothingStarvesInLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newClocked(Need{CPU: 4000}, eight("H100")[:2])
		jobs := []*core.Job{{Weight: 1}, {Weight: 2}, {Weight: 3}, nil}
		var waits []*timed
		some := func() {
			j, of := rapid.SampledFrom(jobs).Draw(t, "job"), 0
			for _, w := range waits {
				if w.job == j {
					of++
				}
			}
			if of == 5 {
				return
			}
			w := &timed{piece: piece{job: j}, takes: time.Duration(rapid.Int64Range(5e6, 20e6).Draw(t, "takes"))}
			n := rapid.SampledFrom([]Need{{GPU: 1000}, {GPU: 2000}, {GPU: 500, CPU: 1000}, {CPU: 3000, GPU: 500}}).Draw(t, "need")
			waits = append(waits, w)
			c.push(n, w, func(w *timed) {
				waits = slices.DeleteFunc(waits, func(o *timed) bool { return o == w })
				var devices [2]int64
				for _, r := range c.runs {
					for _, i := range r.hold.devices {
						if devices[i] += min(r.hold.need.GPU, Unit); devices[i] > Unit {
							t.Fatalf("device %d is held twice", i)
						}
					}
				}
			})
		}
		for range 600 {
			for range rapid.IntRange(0, 6).Draw(t, "come") {
				some()
			}
			if len(c.runs) > 0 {
				c.step()
			}
			for _, w := range waits {
				if since := c.grants - w.pushed; since > 400 { // a claim costs at most 48 times what another does, by weight, and four of its job are before it
					t.Fatalf("work has waited for %d grants", since)
				}
			}
		}
	})
}

// TestOneJobKeepsTheOrder: while all jobs' work that waits is of one job, its use decides nothing: it begins in the order of work of none, of
// which each class begins in the order in which it came.
func TestOneJobKeepsTheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type step struct {
			push, mine bool
			class      core.Class
			need       Need
			takes      time.Duration
		}
		steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
			return step{
				push: rapid.Bool().Draw(t, "push"), mine: rapid.Bool().Draw(t, "mine"), class: rapid.SampledFrom([]core.Class{core.Low, core.Normal, core.Normal, core.High}).Draw(t, "class"),
				need:  rapid.SampledFrom([]Need{{GPU: 1000}, {GPU: 2000}, {CPU: 3000}, {CPU: 1000, GPU: 500}}).Draw(t, "need"),
				takes: time.Duration(rapid.Int64Range(1, int64(8*time.Second)).Draw(t, "takes")),
			}
		}), 1, 80).Draw(t, "steps")
		run := func(of func(step) *core.Job) (order []string) {
			c := newClocked(Need{CPU: 4000}, eight("H100")[:2])
			for i, s := range steps {
				if s.push {
					c.push(s.need, &timed{piece: piece{name: fmt.Sprint(i), class: s.class, job: of(s)}, takes: s.takes}, func(w *timed) { order = append(order, w.name) })
				} else if len(c.runs) > 0 {
					c.step()
				}
			}
			for len(c.runs) > 0 {
				c.step()
			}
			return order
		}
		j := &core.Job{Weight: 7}
		want := run(func(step) *core.Job { return nil })
		if diff := cmp.Diff(want, run(func(step) *core.Job { return j })); diff != "" {
			t.Errorf("work of one job begins in another order than that of none:\n%s", diff)
		}
		mixed := run(func(s step) *core.Job {
			if s.mine {
				return j
			}
			return nil
		})
		if diff := cmp.Diff(want, mixed); diff != "" {
			t.Errorf("work of one job and of none begins in another order than that of none:\n%s", diff)
		}
	})
}

// TestWorkOfNoJob: work of no job that comes while two jobs share a device begins before what they have used more than by then, once, and after it
// they go on as they did.
func TestWorkOfNoJob(t *testing.T) {
	c := newClocked(Need{CPU: 1000}, eight("H100")[:1])
	var order []string
	jobs := map[string]*core.Job{"a": {Weight: 1}, "b": {Weight: 1}}
	push := func(name string) {
		c.push(Need{GPU: 1000}, &timed{piece: piece{name: name, job: jobs[name]}, takes: time.Second}, func(w *timed) { order = append(order, w.name) })
	}
	for range 5 {
		push("a")
	}
	for range 5 {
		push("b")
	}
	for range 4 {
		c.step()
	}
	push("grain")
	place := c.Waiting(func(w Work) bool { return w.(*timed).name == "grain" })[0]
	for range 6 {
		c.step()
	}
	if diff := cmp.Diff([]string{"a", "b", "a", "b", "a", "b", "grain", "a", "b", "a", "b"}, order); diff != "" {
		t.Errorf("they begin in another order:\n%s", diff)
	}
	var before []string
	for _, w := range place.Before {
		before = append(before, w.(*timed).name)
	}
	if diff := cmp.Diff([]string{"b"}, before); diff != "" {
		t.Errorf("other work is said to go before it:\n%s", diff)
	}
}
